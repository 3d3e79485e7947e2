"""The table of what an upgrade left to do."""

from tortoise import fields
from tortoise.models import Model


class UpgradeNoteTable(Model):
    """Something that the bot does once after an upgrade, and then removes."""

    name = fields.CharField(max_length=32, primary_key=True)

    class Meta:
        table_description = "What the bot does once after an upgrade"
        table = "upgrade_notes"
