from tortoise import fields, migrations
from tortoise.indexes import Index
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "0007_statistics")]

    initial = False

    operations = [
        ops.CreateModel(
            name="Prompt",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("turn_id", fields.BigIntField()),
                ("position", fields.IntField()),
                ("chat_key", fields.CharField(max_length=255)),
                ("recipe", fields.TextField(unique=False)),
                ("times", fields.TextField(unique=False)),
                ("error", fields.TextField(unique=False)),
            ],
            options={
                "table": "prompts",
                "app": "store",
                "unique_together": (("turn_id", "position"),),
                "pk_attr": "id",
                "table_description": "What the model was shown in one step, as record numbers and hashes of parts, and its times.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="PromptPart",
            fields=[
                (
                    "hash",
                    fields.CharField(primary_key=True, unique=True, db_index=True, max_length=64),
                ),
                ("chat_key", fields.CharField(db_index=True, max_length=255)),
                ("data", fields.BinaryField()),
                ("used", fields.FloatField(db_index=True)),
            ],
            options={
                "table": "prompt_parts",
                "app": "store",
                "pk_attr": "hash",
                "table_description": "A text or picture of prompts that is no record. Its chat is empty if it has no words of people.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="MessageVersion",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("seq", fields.BigIntField(db_index=True)),
                ("segments", fields.TextField(unique=False)),
            ],
            options={
                "table": "message_versions",
                "app": "store",
                "pk_attr": "id",
                "table_description": "What a message of the bot was before it was edited.",
            },
            bases=["Model"],
        ),
        ops.AddField(
            model_name="Turn", name="model", field=fields.TextField(default="", db_default="")
        ),
        ops.AddField(
            model_name="Turn",
            name="failed",
            field=fields.BooleanField(default=False, db_default=False),
        ),
        ops.AddField(
            model_name="Turn", name="times", field=fields.TextField(default="", db_default="")
        ),
        ops.AddField(
            model_name="ToolCall", name="result", field=fields.TextField(default="", db_default="")
        ),
        ops.AddIndex("Turn", Index(fields=["user_id", "id"], name="turns_user_id")),
        ops.AddIndex("Turn", Index(fields=["model", "id"], name="turns_model_id")),
        ops.AddIndex("Turn", Index(fields=["failed", "id"], name="turns_failed_id")),
    ]
