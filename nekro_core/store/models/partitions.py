"""Defines the tables that say which process owns each partition of the chats, which items of a
partition its owners have taken up, and which transaction a process has committed last."""

from tortoise import fields
from tortoise.indexes import Index
from tortoise.models import Model

from nekro_core.store.limits import MAX_ID


class PartitionOwnerTable(Model):
    """A partition of the chats, the process that owns it, and how often the owner has changed.
    ``token`` begins with the epoch for which it was made."""

    partition = fields.IntField(primary_key=True, generated=False)
    epoch = fields.BigIntField()
    worker = fields.CharField(max_length=MAX_ID)
    taken = fields.FloatField()
    token = fields.CharField(max_length=64, default="", db_default="")

    class Meta:
        table_description = "The process that owns a partition of the chats"
        table = "partition_owners"


class ItemTakeTable(Model):
    """An item that an owner of a partition has taken up and not finished. If the owner ends without
    giving the partition up, the row stays."""

    id = fields.BigIntField(primary_key=True)
    item = fields.CharField(max_length=MAX_ID)
    partition = fields.IntField()
    epoch = fields.BigIntField()
    taken = fields.FloatField()

    class Meta:
        table_description = "An item that the owner of a partition has taken up and not finished"
        table = "item_takes"
        unique_together = (("partition", "item", "epoch"),)
        indexes = (Index(fields=["partition", "epoch"], name="item_takes_epoch"),)


class CommitMarkTable(Model):
    """The random mark of the last transaction that a process has committed (`PostgresTransaction`).
    ``node`` is empty for a bot that has the database for itself. On SQLite, the table stays
    empty."""

    node = fields.CharField(primary_key=True, max_length=MAX_ID)
    mark = fields.BigIntField()

    class Meta:
        table_description = "The last transaction that a process has committed"
        table = "commit_marks"
