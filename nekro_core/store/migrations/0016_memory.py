from tortoise import fields, migrations
from tortoise.indexes import Index
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "0015_role_of_model_uses")]

    initial = False

    operations = [
        ops.CreateModel(
            name="NoteTable",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("chat_key", fields.CharField(max_length=255)),
                ("about_id", fields.CharField(max_length=255)),
                ("about_name", fields.TextField(unique=False)),
                ("said_by", fields.CharField(max_length=255)),
                ("kind", fields.CharField(max_length=16)),
                ("origin", fields.CharField(max_length=16)),
                ("text", fields.TextField(unique=False)),
                ("source_seq", fields.BigIntField()),
                ("since", fields.FloatField()),
                ("until", fields.FloatField()),
                ("replaced_by", fields.BigIntField()),
                ("changed", fields.FloatField()),
            ],
            options={
                "table": "memory_notes",
                "app": "store",
                "indexes": [
                    Index(fields=["chat_key", "id"], name="memory_notes_chat_id"),
                    Index(fields=["changed"], name="memory_notes_changed"),
                ],
                "pk_attr": "id",
                "table_description": "Something that was said in a chat and that the bot shall remember.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="SummaryTable",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("chat_key", fields.CharField(max_length=255)),
                ("level", fields.IntField()),
                ("from_seq", fields.BigIntField()),
                ("through_seq", fields.BigIntField()),
                ("records", fields.IntField()),
                ("recalled", fields.IntField()),
                ("text", fields.TextField(unique=False)),
                ("state", fields.CharField(max_length=16)),
                ("begun", fields.FloatField()),
                ("ended", fields.FloatField()),
                ("made", fields.FloatField()),
            ],
            options={
                "table": "memory_summaries",
                "app": "store",
                "unique_together": (("chat_key", "level", "from_seq"),),
                "pk_attr": "id",
                "table_description": "A summary of a range of records of a chat.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="MemoryChatTable",
            fields=[
                (
                    "chat_key",
                    fields.CharField(primary_key=True, unique=True, db_index=True, max_length=255),
                ),
                ("drawn_through", fields.BigIntField(default=0, db_default=0)),
                (
                    "link",
                    fields.CharField(default="", db_default="", db_index=True, max_length=64),
                ),
            ],
            options={
                "table": "memory_chats",
                "app": "store",
                "pk_attr": "chat_key",
                "table_description": "How far the notes of a chat are, and its links.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="MemoryOffTable",
            fields=[
                (
                    "digest",
                    fields.CharField(primary_key=True, unique=True, db_index=True, max_length=64),
                ),
                ("since", fields.FloatField()),
            ],
            options={
                "table": "memory_off",
                "app": "store",
                "pk_attr": "digest",
                "table_description": "A digest of the id of a person about whom nothing is remembered.",
            },
            bases=["Model"],
        ),
    ]
