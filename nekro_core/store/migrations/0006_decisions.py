from tortoise import fields, migrations
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "0005_chat_names")]

    initial = False

    operations = [
        ops.AddField(
            model_name="Message",
            name="decision",
            field=fields.CharField(max_length=32, default="", db_default=""),
        ),
        ops.AddField(
            model_name="Message",
            name="decision_detail",
            field=fields.TextField(default="", db_default=""),
        ),
        ops.AddField(
            model_name="Message",
            name="turn_id",
            field=fields.BigIntField(default=0, db_default=0),
        ),
    ]
