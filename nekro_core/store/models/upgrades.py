"""The table of notes about what the bot must still do after an upgrade."""

from tortoise import fields
from tortoise.models import Model


class UpgradeNoteTable(Model):
    """Something that the bot does once after an upgrade, and then removes."""

    name = fields.CharField(max_length=32, primary_key=True)

    class Meta:
        table_description = "What the bot does once after an upgrade"
        table = "upgrade_notes"
