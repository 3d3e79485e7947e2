from tortoise import fields, migrations
from tortoise.indexes import Index
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "0006_decisions")]

    initial = False

    operations = [
        ops.AddField(
            model_name="Turn",
            name="counted",
            field=fields.BooleanField(default=False, db_default=False),
        ),
        ops.AddIndex(
            model_name="Turn", index=Index(fields=["counted", "id"], name="turns_counted")
        ),
        ops.CreateModel(
            name="Statistics",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("period", fields.CharField(max_length=8)),
                ("dimension", fields.CharField(max_length=8)),
                ("name", fields.CharField(max_length=512)),
                ("member", fields.CharField(max_length=255)),
                ("start", fields.BigIntField()),
                ("messages", fields.BigIntField()),
                ("sent", fields.BigIntField()),
                ("turns", fields.BigIntField()),
                ("errors", fields.BigIntField()),
                ("requests", fields.BigIntField()),
                ("prompt_tokens", fields.BigIntField()),
                ("cached_tokens", fields.BigIntField()),
                ("completion_tokens", fields.BigIntField()),
                ("cost", fields.FloatField()),
                ("calls", fields.BigIntField()),
                ("call_errors", fields.BigIntField()),
            ],
            options={
                "table": "statistics",
                "app": "store",
                "unique_together": (("period", "dimension", "name", "member", "start"),),
                "indexes": [
                    Index(fields=["period", "dimension", "start"], name="statistics_start")
                ],
                "pk_attr": "id",
                "table_description": "Sums of one hour, day or month, or of all time",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="Latency",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("period", fields.CharField(max_length=8)),
                ("dimension", fields.CharField(max_length=8)),
                ("name", fields.CharField(max_length=512)),
                ("measure", fields.CharField(max_length=16)),
                ("start", fields.BigIntField()),
                ("bucket", fields.IntField()),
                ("number", fields.BigIntField()),
            ],
            options={
                "table": "latencies",
                "app": "store",
                "unique_together": (("period", "dimension", "name", "measure", "start", "bucket"),),
                "indexes": [Index(fields=["period", "dimension", "start"], name="latencies_start")],
                "pk_attr": "id",
                "table_description": "How many latencies of a period fell into one bucket",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="Counted",
            fields=[
                (
                    "name",
                    fields.CharField(primary_key=True, unique=True, db_index=True, max_length=32),
                ),
                ("through", fields.BigIntField()),
            ],
            options={
                "table": "counted",
                "app": "store",
                "pk_attr": "name",
                "table_description": "Up to which row a table is in the statistics",
            },
            bases=["Model"],
        ),
    ]
