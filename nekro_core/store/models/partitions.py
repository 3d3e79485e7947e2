"""Defines the table that says which process owns each partition of the chats."""

from tortoise import fields
from tortoise.models import Model

from nekro_core.store.limits import MAX_ID


class PartitionOwnerTable(Model):
    """A partition of the chats, the process that owns it, and how often the owner has changed."""

    partition = fields.IntField(primary_key=True, generated=False)
    epoch = fields.BigIntField()
    worker = fields.CharField(max_length=MAX_ID)
    taken = fields.FloatField()

    class Meta:
        table_description = "The process that owns a partition of the chats"
        table = "partition_owners"
