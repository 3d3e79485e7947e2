"""The tables of the search index of messages, see `nekro_core.store.search_index`."""

from tortoise import fields
from tortoise.models import Model

from nekro_core.chat import MAX_KEY_LENGTH


class SearchSegmentTable(Model):
    """A run of neighbouring messages of a chat whose words are indexed together."""

    id = fields.BigIntField(primary_key=True)
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH)
    level = fields.IntField()
    start = fields.BigIntField()
    count = fields.IntField()
    terms = fields.BigIntField()
    buckets = fields.IntField()
    first_seq = fields.BigIntField()
    last_seq = fields.BigIntField()

    class Meta:
        table_description = "A run of messages of a chat whose words are indexed together."
        table = "search_segments"
        unique_together = (("chat_key", "start", "level"),)


class SearchPageTable(Model):
    """The words of one bucket of a segment, with the messages that have them."""

    id = fields.BigIntField(primary_key=True)
    data = fields.BinaryField()

    class Meta:
        table_description = "The words of one bucket of a segment, and the messages that have them."
        table = "search_pages"


class SearchBlockTable(Model):
    """Numbers, times and vectors of 64 neighbouring messages of a chat."""

    id = fields.BigIntField(primary_key=True)
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH)
    number = fields.BigIntField()
    first_seq = fields.BigIntField()
    first_time = fields.FloatField()
    last_time = fields.FloatField()
    facts = fields.BinaryField()
    vectors = fields.BinaryField()
    encoded = fields.BooleanField()

    class Meta:
        table_description = "Numbers, times and vectors of 64 neighbouring messages of a chat."
        table = "search_blocks"
        unique_together = (("chat_key", "number"), ("chat_key", "first_seq"))


class SearchChangeTable(Model):
    """A message that was changed or deleted, and that the search index has in its old form.
    Triggers of the database write these rows."""

    id = fields.BigIntField(primary_key=True)
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH, db_index=True)
    seq = fields.BigIntField()

    class Meta:
        table_description = "A changed message that the search index has in its old form."
        table = "search_changes"
