"""Defines the tables of files that several processes share through an object store."""

from tortoise import fields
from tortoise.indexes import Index
from tortoise.models import Model

from nekro_core.chat import MAX_KEY_LENGTH
from nekro_core.store.limits import MAX_ID


class MediaFileTable(Model):
    """A received or sent medium of a chat in the object store. ``ready`` says whether the object is
    stored. Until then, only the process ``node`` has the file."""

    object_name = fields.CharField(max_length=MAX_ID, primary_key=True)
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH)
    sha256 = fields.CharField(max_length=64)
    size = fields.BigIntField()
    node = fields.CharField(max_length=MAX_ID)
    ready = fields.BooleanField()
    used = fields.FloatField()

    class Meta:
        table_description = "A medium of a chat in the object store"
        table = "media_files"
        indexes = (
            Index(fields=["chat_key", "used"], name="media_files_chat_used"),
            Index(fields=["used"], name="media_files_used"),
        )


class BoxFilesTable(Model):
    """The files of a box in the object store. ``parts`` is a list of objects in JSON, ``epoch`` the
    epoch of the chat's owner that saved them."""

    id = fields.BigIntField(primary_key=True)
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH)
    name = fields.CharField(max_length=64)
    record = fields.TextField()
    mark = fields.CharField(max_length=64)
    parts = fields.TextField()
    size = fields.BigIntField()
    epoch = fields.BigIntField()
    saved = fields.FloatField()

    class Meta:
        table_description = "The files of a box in the object store"
        table = "box_files"
        unique_together = (("chat_key", "name"),)
