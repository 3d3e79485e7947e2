from tortoise import fields, migrations
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "0012_documents_and_prices")]

    initial = False

    operations = [
        ops.AddField(model_name="Turn", name="first_words", field=fields.FloatField(null=True)),
    ]
