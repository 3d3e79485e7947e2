from tortoise import fields, migrations
from tortoise.fields import Field
from tortoise.migrations import operations as ops
from tortoise.migrations.schema_editor.base import BaseSchemaEditor

from nekro_core.store.search_triggers import trigger_statements


def _id() -> tuple[str, Field[int]]:
    return (
        "id",
        fields.BigIntField(generated=True, primary_key=True, unique=True, db_index=True),
    )


async def _add_triggers(_: object, editor: BaseSchemaEditor) -> None:
    for sql in trigger_statements(editor.client.capabilities.dialect):
        await editor.client.execute_query(sql)


class Migration(migrations.Migration):
    dependencies = [("store", "0013_first_words")]

    initial = False

    operations = [
        ops.CreateModel(
            name="SearchSegment",
            fields=[
                _id(),
                ("chat_key", fields.CharField(max_length=255)),
                ("level", fields.IntField()),
                ("start", fields.BigIntField()),
                ("count", fields.IntField()),
                ("terms", fields.BigIntField()),
                ("buckets", fields.IntField()),
                ("first_seq", fields.BigIntField()),
                ("last_seq", fields.BigIntField()),
            ],
            options={
                "table": "search_segments",
                "app": "store",
                "unique_together": (("chat_key", "start", "level"),),
                "pk_attr": "id",
                "table_description": "A run of messages of a chat whose words are indexed together.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="SearchPage",
            fields=[_id(), ("data", fields.BinaryField())],
            options={
                "table": "search_pages",
                "app": "store",
                "pk_attr": "id",
                "table_description": "The words of one bucket of a segment, and the messages that have them.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="SearchBlock",
            fields=[
                _id(),
                ("chat_key", fields.CharField(max_length=255)),
                ("number", fields.BigIntField()),
                ("first_seq", fields.BigIntField()),
                ("first_time", fields.FloatField()),
                ("last_time", fields.FloatField()),
                ("facts", fields.BinaryField()),
                ("vectors", fields.BinaryField()),
                ("encoded", fields.BooleanField()),
            ],
            options={
                "table": "search_blocks",
                "app": "store",
                "unique_together": (("chat_key", "number"), ("chat_key", "first_seq")),
                "pk_attr": "id",
                "table_description": "Numbers, times and vectors of 64 neighbouring messages of a chat.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="SearchChange",
            fields=[
                _id(),
                ("chat_key", fields.CharField(db_index=True, max_length=255)),
                ("seq", fields.BigIntField()),
            ],
            options={
                "table": "search_changes",
                "app": "store",
                "pk_attr": "id",
                "table_description": "A changed message that the search index has in its old form.",
            },
            bases=["Model"],
        ),
        ops.RunPython(_add_triggers),
    ]
