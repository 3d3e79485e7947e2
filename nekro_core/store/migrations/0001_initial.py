from tortoise import fields, migrations
from tortoise.indexes import Index
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    initial = True

    operations = [
        ops.CreateModel(
            name="Account",
            fields=[
                (
                    "id",
                    fields.IntField(generated=True, primary_key=True, unique=True, db_index=True),
                ),
                ("adapter", fields.CharField(max_length=64)),
                ("account", fields.CharField(max_length=255)),
                ("instance", fields.CharField(unique=True, max_length=128)),
                ("bound", fields.FloatField()),
            ],
            options={
                "table": "accounts",
                "app": "store",
                "unique_together": (("adapter", "account"),),
                "pk_attr": "id",
                "table_description": "A bot identity and the instance part of its chat keys. Bound once, never moved.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="Chat",
            fields=[
                (
                    "chat_key",
                    fields.CharField(primary_key=True, unique=True, db_index=True, max_length=255),
                ),
                ("instance", fields.CharField(db_index=True, max_length=128)),
                ("first_seen", fields.FloatField()),
                ("handled_seq", fields.BigIntField()),
            ],
            options={
                "table": "chats",
                "app": "store",
                "pk_attr": "chat_key",
                "table_description": "A chat that was heard of. ``handled_seq`` is the newest record that was dealt with.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="Delivery",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("delivery_id", fields.CharField(unique=True, max_length=64)),
                ("chat_key", fields.CharField(max_length=255)),
                ("run_id", fields.CharField(db_index=True, max_length=64)),
                ("position", fields.IntField()),
                ("segments", fields.TextField(unique=False)),
                ("state", fields.CharField(db_index=True, max_length=16)),
                ("message_id", fields.TextField(unique=False)),
                ("reason", fields.TextField(unique=False)),
                ("record_seq", fields.BigIntField()),
                ("created", fields.FloatField()),
                ("changed", fields.FloatField()),
            ],
            options={
                "table": "deliveries",
                "app": "store",
                "pk_attr": "id",
                "table_description": "One platform call. ``id`` keeps the order in which they were asked for.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="Message",
            fields=[
                (
                    "seq",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("chat_key", fields.CharField(max_length=255)),
                ("instance", fields.CharField(max_length=128)),
                ("unique_id", fields.CharField(null=True, max_length=255)),
                ("message_id", fields.TextField(unique=False)),
                ("author", fields.CharField(max_length=16)),
                ("user_id", fields.CharField(max_length=255)),
                ("user_name", fields.TextField(unique=False)),
                ("role", fields.CharField(max_length=16)),
                ("segments", fields.TextField(unique=False)),
                ("time", fields.FloatField()),
                ("to_bot", fields.BooleanField()),
                ("from_history", fields.BooleanField()),
                ("recalled", fields.BooleanField()),
                ("run_id", fields.CharField(max_length=64)),
                ("state", fields.CharField(max_length=16)),
            ],
            options={
                "table": "messages",
                "app": "store",
                "unique_together": (("instance", "unique_id"),),
                "indexes": [
                    Index(fields=["chat_key", "seq"], name="messages_chat_seq"),
                    Index(fields=["time"], name="messages_time"),
                ],
                "pk_attr": "seq",
                "table_description": "One line of a chat's history.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="PluginData",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("plugin", fields.CharField(max_length=128)),
                ("chat_key", fields.CharField(max_length=255)),
                ("user_key", fields.CharField(max_length=255)),
                ("store_key", fields.CharField(max_length=255)),
                ("value", fields.TextField(unique=False)),
            ],
            options={
                "table": "plugin_data",
                "app": "store",
                "unique_together": (("plugin", "chat_key", "user_key", "store_key"),),
                "pk_attr": "id",
                "table_description": "What a plugin keeps, by chat, person and its own key. An empty key means all of them.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="Run",
            fields=[
                (
                    "run_id",
                    fields.CharField(primary_key=True, unique=True, db_index=True, max_length=64),
                ),
                ("chat_key", fields.CharField(max_length=255)),
                ("turn_id", fields.BigIntField(db_index=True)),
                ("step", fields.IntField()),
                ("code", fields.TextField(unique=False)),
                ("output", fields.TextField(unique=False)),
                ("stop", fields.TextField(unique=False)),
                ("error", fields.TextField(unique=False)),
                ("started", fields.FloatField()),
                ("seconds", fields.FloatField()),
            ],
            options={
                "table": "runs",
                "app": "store",
                "pk_attr": "run_id",
                "table_description": "One execution of a reply's code. ``stop`` is empty while it runs.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="Step",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("turn_id", fields.BigIntField()),
                ("chat_key", fields.CharField(max_length=255)),
                ("user_id", fields.CharField(max_length=255)),
                ("position", fields.IntField()),
                ("reply", fields.TextField(unique=False)),
                ("tail", fields.TextField(unique=False)),
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
                "table": "steps",
                "app": "store",
                "unique_together": (("turn_id", "position"),),
                "indexes": [Index(fields=["started"], name="steps_started")],
                "pk_attr": "id",
                "table_description": "One model reply of a turn, with the tail that did not run and what it cost.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="ToolCall",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("run_id", fields.CharField(max_length=64)),
                ("position", fields.IntField()),
                ("name", fields.TextField(unique=False)),
                ("arguments", fields.TextField(unique=False)),
                ("outcome", fields.TextField(unique=False)),
                ("started", fields.FloatField()),
                ("seconds", fields.FloatField()),
            ],
            options={
                "table": "tool_calls",
                "app": "store",
                "unique_together": (("run_id", "position"),),
                "pk_attr": "id",
                "table_description": "One call of a tool by a run.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="Turn",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("chat_key", fields.CharField(max_length=255)),
                ("running_chat", fields.CharField(null=True, unique=True, max_length=255)),
                ("trigger_seq", fields.BigIntField()),
                ("through_seq", fields.BigIntField()),
                ("user_id", fields.CharField(max_length=255)),
                ("stop", fields.TextField(unique=False)),
                ("attempts", fields.IntField()),
                ("started", fields.FloatField()),
                ("ended", fields.FloatField()),
            ],
            options={
                "table": "turns",
                "app": "store",
                "indexes": [Index(fields=["chat_key", "id"], name="turns_chat_id")],
                "pk_attr": "id",
                "table_description": "One turn. ``running_chat`` is the chat while it runs and null after, so that its unique key",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="User",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("instance", fields.CharField(max_length=128)),
                ("user_id", fields.CharField(max_length=255)),
                ("name", fields.TextField(unique=False)),
                ("first_seen", fields.FloatField()),
            ],
            options={
                "table": "users",
                "app": "store",
                "unique_together": (("instance", "user_id"),),
                "pk_attr": "id",
                "table_description": "A person on one platform account's side.",
            },
            bases=["Model"],
        ),
    ]
