"""The tables of what the bot remembers of chats: notes, summaries, links between chats."""

from tortoise import fields
from tortoise.indexes import Index
from tortoise.models import Model

from nekro_core.chat import MAX_KEY_LENGTH
from nekro_core.store.limits import MAX_ID


class NoteTable(Model):
    """Something that was said in a chat and that the bot shall remember. ``about_id`` is the person
    that it is about, or empty for the chat. ``said_by`` is the person who said it, and
    ``source_seq`` the message. The note is true from ``since`` to ``until``, which is 0 while the
    note is still true. ``replaced_by`` is the note that corrected it, 0 if there is none."""

    id = fields.BigIntField(primary_key=True)
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH)
    about_id = fields.CharField(max_length=MAX_ID)
    about_name = fields.TextField()
    said_by = fields.CharField(max_length=MAX_ID)
    kind = fields.CharField(max_length=16)
    origin = fields.CharField(max_length=16)
    text = fields.TextField()
    source_seq = fields.BigIntField()
    since = fields.FloatField()
    until = fields.FloatField()
    replaced_by = fields.BigIntField()
    changed = fields.FloatField()

    class Meta:
        table_description = "Something that was said in a chat and that the bot shall remember."
        table = "memory_notes"
        indexes = (
            Index(fields=("chat_key", "id"), name="memory_notes_chat_id"),
            Index(fields=("changed",), name="memory_notes_changed"),
        )


class SummaryTable(Model):
    """A summary of the records of a chat from ``from_seq`` to ``through_seq``. Level 1 summarizes
    records, and level 2 summaries. ``records`` is their number, and ``recalled`` how many records
    of this range were recalled when it was made. ``state`` is ``made``, ``stale`` (it must be made
    again, its text is empty) or ``given_up``."""

    id = fields.BigIntField(primary_key=True)
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH)
    level = fields.IntField()
    from_seq = fields.BigIntField()
    through_seq = fields.BigIntField()
    records = fields.IntField()
    recalled = fields.IntField()
    text = fields.TextField()
    state = fields.CharField(max_length=16)
    begun = fields.FloatField()
    ended = fields.FloatField()
    made = fields.FloatField()

    class Meta:
        table_description = "A summary of a range of records of a chat."
        table = "memory_summaries"
        unique_together = (("chat_key", "level", "from_seq"),)


class MemoryChatTable(Model):
    """Says up to which record the bot has made notes from a chat. Chats with the same ``link``
    share their notes. The row with an empty key has the newest record of the time before there were
    notes."""

    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH, primary_key=True)
    drawn_through = fields.BigIntField(default=0, db_default=0)
    link = fields.CharField(max_length=64, default="", db_default="", db_index=True)

    class Meta:
        table_description = "How far the notes of a chat are, and its links."
        table = "memory_chats"


class MemoryOffTable(Model):
    """A person about whom nothing is remembered. Only a digest of the person's id is stored."""

    digest = fields.CharField(max_length=64, primary_key=True)
    since = fields.FloatField()

    class Meta:
        table_description = "A digest of the id of a person about whom nothing is remembered."
        table = "memory_off"
