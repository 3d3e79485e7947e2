from tortoise import fields, migrations
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "0004_answered_elsewhere")]

    initial = False

    operations = [
        ops.AddField(
            model_name="Chat",
            name="name",
            field=fields.TextField(default="", db_default=""),
        )
    ]
