"""The tables of the statistics."""

from tortoise import fields
from tortoise.indexes import Index
from tortoise.models import Model

from nekro_core.store.limits import MAX_ID


class StatisticsTable(Model):
    """Sums of one hour, day or month, or of all time, for example of one chat or one model
    (`nekro_core.store.statistics`). ``start`` is 0 in the rows of all time. ``member`` is a person
    where ``dimension`` is ``member``, and empty otherwise."""

    id = fields.BigIntField(primary_key=True)
    period = fields.CharField(max_length=8)
    dimension = fields.CharField(max_length=8)
    name = fields.CharField(max_length=512)
    member = fields.CharField(max_length=MAX_ID)
    start = fields.BigIntField()
    messages = fields.BigIntField()
    sent = fields.BigIntField()
    turns = fields.BigIntField()
    errors = fields.BigIntField()
    requests = fields.BigIntField()
    prompt_tokens = fields.BigIntField()
    cached_tokens = fields.BigIntField()
    completion_tokens = fields.BigIntField()
    cost = fields.FloatField()
    calls = fields.BigIntField()
    call_errors = fields.BigIntField()
    published_cost = fields.FloatField(default=0.0, db_default=0.0)
    unpriced = fields.BigIntField(default=0, db_default=0)

    class Meta:
        table_description = "Sums of one hour, day or month, or of all time"
        table = "statistics"
        unique_together = (("period", "dimension", "name", "member", "start"),)
        indexes = (Index(fields=("period", "dimension", "start"), name="statistics_start"),)


class LatencyTable(Model):
    """Says how many latencies of one hour, day or month fell into one bucket
    (`nekro_core.store.histogram`)."""

    id = fields.BigIntField(primary_key=True)
    period = fields.CharField(max_length=8)
    dimension = fields.CharField(max_length=8)
    name = fields.CharField(max_length=512)
    measure = fields.CharField(max_length=16)
    start = fields.BigIntField()
    bucket = fields.IntField()
    number = fields.BigIntField()

    class Meta:
        table_description = "How many latencies of a period fell into one bucket"
        table = "latencies"
        unique_together = (("period", "dimension", "name", "measure", "start", "bucket"),)
        indexes = (Index(fields=("period", "dimension", "start"), name="latencies_start"),)


class CountedTable(Model):
    """Says up to which row the statistics have counted a table."""

    name = fields.CharField(max_length=32, primary_key=True)
    through = fields.BigIntField()

    class Meta:
        table_description = "Up to which row a table is in the statistics"
        table = "counted"
