from tortoise import fields, migrations
from tortoise.indexes import Index
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "0020_shared_files")]

    initial = False

    operations = [
        ops.AddField(
            model_name="PartitionOwner",
            name="token",
            field=fields.CharField(max_length=64, default="", db_default=""),
        ),
        ops.CreateModel(
            name="ItemTakeTable",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("item", fields.CharField(max_length=255)),
                ("partition", fields.IntField()),
                ("epoch", fields.BigIntField()),
                ("taken", fields.FloatField()),
            ],
            options={
                "table": "item_takes",
                "app": "store",
                "unique_together": (("partition", "item", "epoch"),),
                "indexes": [Index(fields=["partition", "epoch"], name="item_takes_epoch")],
                "pk_attr": "id",
                "table_description": (
                    "An item that the owner of a partition has taken up and not finished"
                ),
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="CommitMarkTable",
            fields=[
                (
                    "node",
                    fields.CharField(primary_key=True, unique=True, db_index=True, max_length=255),
                ),
                ("mark", fields.BigIntField()),
            ],
            options={
                "table": "commit_marks",
                "app": "store",
                "pk_attr": "node",
                "table_description": "The last transaction that a process has committed",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="SharedPluginTable",
            fields=[
                (
                    "item",
                    fields.CharField(primary_key=True, unique=True, db_index=True, max_length=255),
                ),
                ("key", fields.CharField(max_length=255)),
                ("version", fields.TextField(unique=False)),
                ("mark", fields.CharField(max_length=64)),
                ("archive", fields.CharField(max_length=64)),
                ("size", fields.BigIntField()),
                ("record", fields.TextField(unique=False)),
                ("needs", fields.TextField(unique=False)),
                ("abilities", fields.TextField(unique=False)),
                ("wanted", fields.BooleanField()),
                ("without_data", fields.BooleanField()),
                ("node", fields.CharField(max_length=255)),
                ("changed_by", fields.TextField(unique=False)),
                ("changed", fields.FloatField()),
                ("revision", fields.BigIntField()),
            ],
            options={
                "table": "shared_plugins",
                "app": "store",
                "pk_attr": "item",
                "table_description": "A plugin that all processes of a cluster have",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="PluginReportTable",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("node", fields.CharField(max_length=255)),
                ("item", fields.CharField(max_length=255)),
                ("problem", fields.TextField(unique=False)),
                ("told", fields.FloatField()),
            ],
            options={
                "table": "plugin_reports",
                "app": "store",
                "unique_together": (("node", "item"),),
                "pk_attr": "id",
                "table_description": "Why a process of a cluster cannot use a plugin",
            },
            bases=["Model"],
        ),
    ]
