from tortoise import fields, migrations
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "0018_turn_times_of_chats")]

    initial = False

    operations = [
        ops.CreateModel(
            name="PartitionOwner",
            fields=[
                (
                    "partition",
                    fields.IntField(primary_key=True, unique=True, db_index=True, generated=False),
                ),
                ("epoch", fields.BigIntField()),
                ("worker", fields.CharField(max_length=255)),
                ("taken", fields.FloatField()),
            ],
            options={
                "table": "partition_owners",
                "app": "store",
                "pk_attr": "partition",
                "table_description": "The process that owns a partition of the chats",
            },
            bases=["Model"],
        ),
    ]
