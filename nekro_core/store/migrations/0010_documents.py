from tortoise import fields, migrations
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "0009_console_people")]

    initial = False

    operations = [
        ops.CreateModel(
            name="Document",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("name", fields.CharField(max_length=200)),
                ("number", fields.BigIntField()),
                ("text", fields.TextField(unique=False)),
                ("saved", fields.FloatField()),
            ],
            options={
                "table": "documents",
                "app": "store",
                "unique_together": (("name", "number"),),
                "pk_attr": "id",
                "table_description": "A revision of a text that the operator edits.",
            },
            bases=["Model"],
        )
    ]
