"""The tables of chats: accounts, chats, people, and messages with their earlier versions."""

from tortoise import fields
from tortoise.indexes import Index
from tortoise.models import Model

from nekro_core.chat import MAX_KEY_LENGTH
from nekro_core.store.limits import MAX_ID


class AccountTable(Model):
    """An account of the bot, and the instance part of its chat keys. Only the operator moves an
    instance to another account."""

    id = fields.IntField(primary_key=True)
    adapter = fields.CharField(max_length=64)
    account = fields.CharField(max_length=MAX_ID)
    instance = fields.CharField(max_length=128, unique=True)
    bound = fields.FloatField()

    class Meta:
        table_description = (
            "A bot identity and the instance part of its chat keys. Bound once, never moved."
        )
        table = "accounts"
        unique_together = (("adapter", "account"),)


class ChatTable(Model):
    """A chat with at least one record. ``handled_seq`` is the newest record that was answered or
    needs no answer. ``name`` is what the platform calls the group or channel."""

    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH, primary_key=True)
    instance = fields.CharField(max_length=128, db_index=True)
    first_seen = fields.FloatField()
    handled_seq = fields.BigIntField()
    name = fields.TextField(default="", db_default="")

    class Meta:
        table_description = (
            "A chat that was heard of. ``handled_seq`` is the newest record that was dealt with."
        )
        table = "chats"


class UserTable(Model):
    """A person whom the bot knows under one instance."""

    id = fields.BigIntField(primary_key=True)
    instance = fields.CharField(max_length=128)
    user_id = fields.CharField(max_length=MAX_ID)
    name = fields.TextField()
    first_seen = fields.FloatField()

    class Meta:
        table_description = "A person on one platform account's side."
        table = "users"
        unique_together = (("instance", "user_id"),)


class MessageTable(Model):
    """One line of a chat's history.

    Duplicates have the same ``unique_id``: the platform's message id, or a digest for a notice. It
    is null for lines that did not come from a platform. ``decision``, ``decision_detail`` and
    ``turn_id`` say why the bot answered it, or why not (`nekro_core.store.decisions`).
    """

    seq = fields.BigIntField(primary_key=True)
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH)
    instance = fields.CharField(max_length=128)
    unique_id = fields.CharField(max_length=MAX_ID, null=True)
    message_id = fields.TextField()
    author = fields.CharField(max_length=16)
    user_id = fields.CharField(max_length=MAX_ID)
    user_name = fields.TextField()
    role = fields.CharField(max_length=16)
    segments = fields.TextField()
    time = fields.FloatField()
    to_bot = fields.BooleanField()
    from_history = fields.BooleanField()
    recalled = fields.BooleanField()
    run_id = fields.CharField(max_length=64)
    state = fields.CharField(max_length=16)
    answered_elsewhere = fields.BooleanField(default=False, db_default=False)
    decision = fields.CharField(max_length=32, default="", db_default="")
    decision_detail = fields.TextField(default="", db_default="")
    turn_id = fields.BigIntField(default=0, db_default=0)

    class Meta:
        table = "messages"
        unique_together = (("instance", "unique_id"),)
        indexes = (
            Index(fields=("chat_key", "seq"), name="messages_chat_seq"),
            Index(fields=("time",), name="messages_time"),
        )


class MessageVersionTable(Model):
    """The segments that a message of the bot had before it was edited, since a prompt may have
    shown them."""

    id = fields.BigIntField(primary_key=True)
    seq = fields.BigIntField(db_index=True)
    segments = fields.TextField()

    class Meta:
        table_description = "What a message of the bot was before it was edited."
        table = "message_versions"
