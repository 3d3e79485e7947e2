from tortoise import fields, migrations
from tortoise.indexes import Index
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "0001_initial")]

    initial = False

    operations = [
        ops.CreateModel(
            name="ModelUse",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("plugin", fields.CharField(max_length=128)),
                ("chat_key", fields.CharField(max_length=255)),
                ("user_id", fields.CharField(max_length=255)),
                ("run_id", fields.CharField(max_length=64)),
                ("model", fields.TextField(unique=False)),
                ("prompt_tokens", fields.BigIntField()),
                ("cached_tokens", fields.BigIntField()),
                ("completion_tokens", fields.BigIntField()),
                ("estimated", fields.BooleanField()),
                ("cost", fields.FloatField()),
                ("started", fields.FloatField()),
                ("seconds", fields.FloatField()),
            ],
            options={
                "table": "model_uses",
                "app": "store",
                "indexes": [Index(fields=["started"], name="model_uses_started")],
                "pk_attr": "id",
                "table_description": "What a plugin asked of a model and what it cost. The key of the plugin and the chat, person",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="Timer",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("timer_id", fields.CharField(unique=True, max_length=64)),
                ("chat_key", fields.CharField(max_length=255)),
                ("kind", fields.CharField(max_length=16)),
                ("state", fields.CharField(max_length=16)),
                ("text", fields.TextField(unique=False)),
                ("title", fields.TextField(unique=False)),
                ("cron", fields.TextField(unique=False)),
                ("timezone", fields.TextField(unique=False)),
                ("workdays", fields.CharField(max_length=16)),
                ("due", fields.FloatField()),
                ("told_due", fields.FloatField()),
                ("record_seq", fields.BigIntField()),
                ("created", fields.FloatField()),
            ],
            options={
                "table": "timers",
                "app": "store",
                "pk_attr": "id",
                "table_description": "A time at which a chat's agent is woken. ``due`` is the next one. ``told_due`` is the last",
            },
            bases=["Model"],
        ),
    ]
