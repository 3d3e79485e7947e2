from tortoise import fields, migrations
from tortoise.fields import Field
from tortoise.migrations import operations as ops


def _id() -> tuple[str, Field[int]]:
    return (
        "id",
        fields.IntField(generated=True, primary_key=True, unique=True, db_index=True),
    )


class Migration(migrations.Migration):
    dependencies = [("store", "0008_shown_prompts")]

    initial = False

    operations = [
        ops.CreateModel(
            name="ConsolePerson",
            fields=[
                _id(),
                ("name", fields.CharField(max_length=64)),
                ("name_key", fields.CharField(unique=True, max_length=255)),
                ("role", fields.CharField(max_length=16)),
                ("state", fields.CharField(max_length=16)),
                ("password_hash", fields.TextField(unique=False)),
                ("totp_secret", fields.TextField(unique=False)),
                ("totp_pending", fields.TextField(unique=False)),
                ("totp_step", fields.BigIntField()),
                ("created", fields.FloatField()),
            ],
            options={
                "table": "console_people",
                "app": "store",
                "pk_attr": "id",
                "table_description": "A person who may open the console, with role, password and code.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="ConsoleRecoveryCode",
            fields=[
                _id(),
                ("person_id", fields.IntField()),
                ("code_hash", fields.CharField(max_length=64)),
            ],
            options={
                "table": "console_recovery_codes",
                "app": "store",
                "unique_together": (("person_id", "code_hash"),),
                "pk_attr": "id",
                "table_description": "The hash of a code that works once instead of the second factor.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="ConsoleInvitation",
            fields=[
                _id(),
                ("person_id", fields.IntField(unique=True)),
                ("token_hash", fields.CharField(unique=True, max_length=64)),
                ("expires", fields.FloatField()),
            ],
            options={
                "table": "console_invitations",
                "app": "store",
                "pk_attr": "id",
                "table_description": "A link with which a person chooses a password. It works once.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="ConsoleSession",
            fields=[
                _id(),
                ("person_id", fields.IntField(db_index=True)),
                ("session_hash", fields.CharField(unique=True, max_length=64)),
                ("created", fields.FloatField()),
                ("last_used", fields.FloatField()),
                ("expires", fields.FloatField()),
                ("address", fields.CharField(max_length=64)),
                ("user_agent", fields.CharField(max_length=256)),
            ],
            options={
                "table": "console_sessions",
                "app": "store",
                "pk_attr": "id",
                "table_description": "A browser that is logged in. Only the hash of its cookie is stored.",
            },
            bases=["Model"],
        ),
        ops.CreateModel(
            name="ConsoleToken",
            fields=[
                _id(),
                ("person_id", fields.IntField(db_index=True)),
                ("token_hash", fields.CharField(unique=True, max_length=64)),
                ("prefix", fields.CharField(max_length=32)),
                ("name", fields.CharField(max_length=64)),
                ("scopes", fields.TextField(unique=False)),
                ("created", fields.FloatField()),
                ("expires", fields.FloatField()),
                ("last_used", fields.FloatField()),
            ],
            options={
                "table": "console_tokens",
                "app": "store",
                "pk_attr": "id",
                "table_description": "A token of the HTTP API. Only its hash is stored.",
            },
            bases=["Model"],
        ),
    ]
