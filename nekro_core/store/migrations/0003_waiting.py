from tortoise import fields, migrations
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "0002_timers_and_model_uses")]

    initial = False

    operations = [
        ops.CreateModel(
            name="Waiting",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("kind", fields.CharField(max_length=16)),
                ("name", fields.CharField(max_length=255)),
                ("plugin", fields.CharField(max_length=128)),
                ("chat_key", fields.CharField(max_length=255)),
                ("user_id", fields.CharField(max_length=255)),
                ("data", fields.TextField(unique=False)),
                ("created", fields.FloatField()),
                ("until", fields.FloatField()),
            ],
            options={
                "table": "waiting",
                "app": "store",
                "unique_together": (("kind", "name"),),
                "pk_attr": "id",
                "table_description": "Something that a process began and that waits for somebody, to be found again at the next",
            },
            bases=["Model"],
        ),
    ]
