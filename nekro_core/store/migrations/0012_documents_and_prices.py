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
        ),
        ops.AddField(
            model_name="Step",
            name="price_source",
            field=fields.CharField(max_length=16, default="", db_default=""),
        ),
        ops.AddField(
            model_name="ModelUse",
            name="price_source",
            field=fields.CharField(max_length=16, default="", db_default=""),
        ),
        ops.AddField(
            model_name="Statistics",
            name="published_cost",
            field=fields.FloatField(default=0.0, db_default=0.0),
        ),
        ops.AddField(
            model_name="Statistics",
            name="unpriced",
            field=fields.BigIntField(default=0, db_default=0),
        ),
    ]
