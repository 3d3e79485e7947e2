from tortoise import fields, migrations
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "0011_audit_log")]

    initial = False

    operations = [
        ops.AddField(
            model_name="Document",
            name="removed",
            field=fields.BooleanField(default=False, db_default=False),
        )
    ]
