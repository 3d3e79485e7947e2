from tortoise import fields, migrations
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "0003_waiting")]

    initial = False

    operations = [
        ops.AddField(
            model_name="Message",
            name="answered_elsewhere",
            field=fields.BooleanField(default=False, db_default=False),
        )
    ]
