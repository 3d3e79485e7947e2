"""The tables of what plugins store, plan and spend."""

from tortoise import fields
from tortoise.indexes import Index
from tortoise.models import Model

from nekro_core.chat import MAX_KEY_LENGTH
from nekro_core.store.limits import MAX_ID


class PluginDataTable(Model):
    """A value that a plugin stored, by chat, person and the plugin's own key. An empty chat or
    person key means all chats or all persons."""

    id = fields.BigIntField(primary_key=True)
    plugin = fields.CharField(max_length=128)
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH)
    user_key = fields.CharField(max_length=MAX_ID)
    store_key = fields.CharField(max_length=MAX_ID)
    value = fields.TextField()

    class Meta:
        table_description = (
            "What a plugin keeps, by chat, person and its own key. An empty key means all of them."
        )
        table = "plugin_data"
        unique_together = (("plugin", "chat_key", "user_key", "store_key"),)


class TimerTable(Model):
    """A timer that wakes a chat's agent. ``due`` is its next time. ``told_due`` is the last time
    that was reported, and ``record_seq`` the history line that reports it, 0 if there is none."""

    id = fields.BigIntField(primary_key=True)
    timer_id = fields.CharField(max_length=64, unique=True)
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH)
    kind = fields.CharField(max_length=16)
    state = fields.CharField(max_length=16)
    text = fields.TextField()
    title = fields.TextField()
    cron = fields.TextField()
    timezone = fields.TextField()
    workdays = fields.CharField(max_length=16)
    due = fields.FloatField()
    told_due = fields.FloatField()
    record_seq = fields.BigIntField()
    created = fields.FloatField()

    class Meta:
        table_description = (
            "A time at which a chat's agent is woken. ``due`` is the next one. ``told_due`` "
            "is the last"
        )
        table = "timers"


class ModelUseTable(Model):
    """One request of a plugin to a model, its cost, and the plugin, chat, person and run for which
    it was made. Each of these four is empty if there is none."""

    id = fields.BigIntField(primary_key=True)
    plugin = fields.CharField(max_length=128)
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH)
    user_id = fields.CharField(max_length=MAX_ID)
    run_id = fields.CharField(max_length=64)
    model = fields.TextField()
    prompt_tokens = fields.BigIntField()
    cached_tokens = fields.BigIntField()
    completion_tokens = fields.BigIntField()
    estimated = fields.BooleanField()
    cost = fields.FloatField()
    started = fields.FloatField()
    seconds = fields.FloatField()
    price_source = fields.CharField(max_length=16, default="", db_default="")
    role = fields.CharField(max_length=16, default="", db_default="")

    class Meta:
        table_description = (
            "What a plugin asked of a model and what it cost. The key of the plugin and the "
            "chat, person"
        )
        table = "model_uses"
        indexes = (Index(fields=("started",), name="model_uses_started"),)


class WaitingTable(Model):
    """Work of a process that waits for an answer, so that the next process finds it again. ``kind``
    says what it is, ``name`` identifies it within its kind, and ``data`` is JSON."""

    id = fields.BigIntField(primary_key=True)
    kind = fields.CharField(max_length=16)
    name = fields.CharField(max_length=MAX_ID)
    plugin = fields.CharField(max_length=128)
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH)
    user_id = fields.CharField(max_length=MAX_ID)
    data = fields.TextField()
    created = fields.FloatField()
    until = fields.FloatField()

    class Meta:
        table_description = (
            "Something that a process began and that waits for somebody, to be found again at"
            " the next"
        )
        table = "waiting"
        unique_together = (("kind", "name"),)


class SharedPluginTable(Model):
    """A plugin that all processes of a cluster have. ``mark`` is the digest of its files, empty if
    it is not installed, and ``archive`` the digest of the object with the files."""

    item = fields.CharField(max_length=MAX_ID, primary_key=True)
    key = fields.CharField(max_length=MAX_ID)
    version = fields.TextField()
    mark = fields.CharField(max_length=64)
    archive = fields.CharField(max_length=64)
    size = fields.BigIntField()
    record = fields.TextField()
    needs = fields.TextField()
    abilities = fields.TextField()
    wanted = fields.BooleanField()
    without_data = fields.BooleanField()
    node = fields.CharField(max_length=MAX_ID)
    changed_by = fields.TextField()
    changed = fields.FloatField()
    revision = fields.BigIntField()

    class Meta:
        table_description = "A plugin that all processes of a cluster have"
        table = "shared_plugins"


class PluginReportTable(Model):
    """Why a process of a cluster cannot use a plugin. ``told`` is when the process last said so."""

    id = fields.BigIntField(primary_key=True)
    node = fields.CharField(max_length=MAX_ID)
    item = fields.CharField(max_length=MAX_ID)
    problem = fields.TextField()
    told = fields.FloatField()

    class Meta:
        table_description = "Why a process of a cluster cannot use a plugin"
        table = "plugin_reports"
        unique_together = (("node", "item"),)
