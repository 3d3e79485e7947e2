from tortoise import fields, migrations
from tortoise.indexes import Index
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "0010_documents")]

    initial = False

    operations = [
        ops.CreateModel(
            name="AuditLog",
            fields=[
                (
                    "id",
                    fields.BigIntField(
                        generated=True, primary_key=True, unique=True, db_index=True
                    ),
                ),
                ("at", fields.FloatField()),
                ("ended", fields.FloatField()),
                ("actor", fields.CharField(max_length=255)),
                ("role", fields.CharField(max_length=16)),
                ("origin", fields.CharField(max_length=16)),
                ("address", fields.CharField(max_length=64)),
                ("action", fields.CharField(max_length=128)),
                ("parameters", fields.TextField(unique=False)),
                ("subject", fields.CharField(max_length=255)),
                ("old", fields.TextField(unique=False)),
                ("new", fields.TextField(unique=False)),
                ("outcome", fields.CharField(max_length=16)),
                ("error", fields.TextField(unique=False)),
                ("undo_action", fields.CharField(max_length=128)),
                ("undo_parameters", fields.TextField(unique=False)),
                ("undone_by", fields.BigIntField()),
            ],
            options={
                "table": "audit_log",
                "app": "store",
                "indexes": [
                    Index(fields=["subject", "id"], name="audit_subject_id"),
                    Index(fields=["actor", "id"], name="audit_actor_id"),
                ],
                "pk_attr": "id",
                "table_description": "One action of an operator, with the values before and after it.",
            },
            bases=["Model"],
        ),
    ]
