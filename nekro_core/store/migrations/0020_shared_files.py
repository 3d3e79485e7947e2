from tortoise import fields, migrations
from tortoise.indexes import Index
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "0019_partition_owners")]

    initial = False

    operations = [
        ops.CreateModel(
            name="MediaFileTable",
            fields=[
                (
                    "object_name",
                    fields.CharField(primary_key=True, unique=True, db_index=True, max_length=255),
                ),
                ("chat_key", fields.CharField(max_length=255)),
                ("sha256", fields.CharField(max_length=64)),
                ("size", fields.BigIntField()),
                ("node", fields.CharField(max_length=255)),
                ("ready", fields.BooleanField()),
                ("used", fields.FloatField()),
            ],
            options={
                "table": "media_files",
                "app": "store",
                "indexes": [
                    Index(fields=["chat_key", "used"], name="media_files_chat_used"),
                    Index(fields=["used"], name="media_files_used"),
                ],
                "pk_attr": "object_name",
                "table_description": "A medium of a chat in the object store",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="BoxFilesTable",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("chat_key", fields.CharField(max_length=255)),
                ("name", fields.CharField(max_length=64)),
                ("record", fields.TextField(unique=False)),
                ("mark", fields.CharField(max_length=64)),
                ("parts", fields.TextField(unique=False)),
                ("size", fields.BigIntField()),
                ("epoch", fields.BigIntField()),
                ("saved", fields.FloatField()),
            ],
            options={
                "table": "box_files",
                "app": "store",
                "unique_together": (("chat_key", "name"),),
                "pk_attr": "id",
                "table_description": "The files of a box in the object store",
            },
            bases=["Model"],
        ),
    ]
