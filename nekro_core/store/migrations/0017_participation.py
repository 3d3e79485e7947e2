from tortoise import fields, migrations
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "0016_memory")]

    initial = False

    operations = [
        ops.CreateModel(
            name="UpgradeNote",
            fields=[
                (
                    "name",
                    fields.CharField(primary_key=True, unique=True, db_index=True, max_length=32),
                ),
            ],
            options={
                "table": "upgrade_notes",
                "app": "store",
                "pk_attr": "name",
                "table_description": "What the bot does once after an upgrade",
            },
            bases=["Model"],
        ),
        # If there are chats, the bot was used before this upgrade. Leave a note for the bot, so
        # that it answers in these chats as it did before.
        ops.RunSQL(
            "INSERT INTO upgrade_notes (name) SELECT 'participation' "
            "WHERE EXISTS (SELECT 1 FROM chats)"
        ),
    ]
