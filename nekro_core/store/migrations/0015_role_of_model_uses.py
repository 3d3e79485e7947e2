from tortoise import fields, migrations
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "0014_message_search")]

    initial = False

    operations = [
        ops.AddField(
            model_name="ModelUse",
            name="role",
            field=fields.CharField(max_length=16, default="", db_default=""),
        ),
    ]
