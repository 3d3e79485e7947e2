"""Defines the tables. Tortoise generates the migrations from these classes. The repositories read
and write the tables with their own SQL (see `database`).

Three rules. Times are seconds since 1970 as floats. There are no foreign keys, because a migration
that rebuilds a table on SQLite would follow them. Where two writers could race, a unique key
decides which one succeeds.

Tortoise writes a comment for each table into the DDL: ``table_description``, or else the first line
of the docstring. These comments must stay the same as in the migrations, and must not contain
semicolons, because Tortoise splits the DDL at semicolons.
"""

from tortoise import fields
from tortoise.indexes import Index
from tortoise.models import Model

from nekro_core.chat import MAX_KEY_LENGTH

MAX_ID = 255
"""Maximum length of a platform's id. It is the limit of a unique VARCHAR column on all databases
that we know."""


class AccountTable(Model):
    """One of our own accounts, and the instance part of its chat keys. Only the operator moves an
    instance to another account."""

    id = fields.IntField(primary_key=True)
    adapter = fields.CharField(max_length=64)
    account = fields.CharField(max_length=MAX_ID)
    instance = fields.CharField(max_length=128, unique=True)
    bound = fields.FloatField()

    class Meta:
        table_description = (
            "A bot identity and the instance part of its chat keys. Bound once, never moved."
        )
        table = "accounts"
        unique_together = (("adapter", "account"),)


class ChatTable(Model):
    """A chat with at least one record. ``handled_seq`` is the newest record that was answered or
    needs no answer. ``name`` is what the platform calls the group or channel."""

    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH, primary_key=True)
    instance = fields.CharField(max_length=128, db_index=True)
    first_seen = fields.FloatField()
    handled_seq = fields.BigIntField()
    name = fields.TextField(default="", db_default="")

    class Meta:
        table_description = (
            "A chat that was heard of. ``handled_seq`` is the newest record that was dealt with."
        )
        table = "chats"


class UserTable(Model):
    """A person, as the accounts of one instance see them."""

    id = fields.BigIntField(primary_key=True)
    instance = fields.CharField(max_length=128)
    user_id = fields.CharField(max_length=MAX_ID)
    name = fields.TextField()
    first_seen = fields.FloatField()

    class Meta:
        table_description = "A person on one platform account's side."
        table = "users"
        unique_together = (("instance", "user_id"),)


class MessageTable(Model):
    """One line of a chat's history.

    Duplicates have the same ``unique_id``: the platform's message id, or a digest for a notice. It
    is null for lines that did not come from a platform. ``decision``, ``decision_detail`` and
    ``turn_id`` say why the bot answered it, or why not (`nekro_core.store.decisions`).
    """

    seq = fields.BigIntField(primary_key=True)
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH)
    instance = fields.CharField(max_length=128)
    unique_id = fields.CharField(max_length=MAX_ID, null=True)
    message_id = fields.TextField()
    author = fields.CharField(max_length=16)
    user_id = fields.CharField(max_length=MAX_ID)
    user_name = fields.TextField()
    role = fields.CharField(max_length=16)
    segments = fields.TextField()
    time = fields.FloatField()
    to_bot = fields.BooleanField()
    from_history = fields.BooleanField()
    recalled = fields.BooleanField()
    run_id = fields.CharField(max_length=64)
    state = fields.CharField(max_length=16)
    answered_elsewhere = fields.BooleanField(default=False, db_default=False)
    decision = fields.CharField(max_length=32, default="", db_default="")
    decision_detail = fields.TextField(default="", db_default="")
    turn_id = fields.BigIntField(default=0, db_default=0)

    class Meta:
        table = "messages"
        unique_together = (("instance", "unique_id"),)
        indexes = (
            Index(fields=("chat_key", "seq"), name="messages_chat_seq"),
            Index(fields=("time",), name="messages_time"),
        )


class MessageVersionTable(Model):
    """The segments that a message of the bot had before it was edited, since a prompt may have
    shown them."""

    id = fields.BigIntField(primary_key=True)
    seq = fields.BigIntField(db_index=True)
    segments = fields.TextField()

    class Meta:
        table_description = "What a message of the bot was before it was edited."
        table = "message_versions"


class TurnTable(Model):
    """One turn. ``running_chat`` is the chat while it runs and null after, so that its unique key
    lets a chat have one running turn and any number of ended ones. ``counted`` says whether it is
    in the statistics. ``failed`` says whether a run or a request failed, or the turn ended with a
    fault. ``times`` is JSON, see `nekro_core.store.turn_trace`."""

    id = fields.BigIntField(primary_key=True)
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH)
    running_chat = fields.CharField(max_length=MAX_KEY_LENGTH, null=True, unique=True)
    trigger_seq = fields.BigIntField()
    through_seq = fields.BigIntField()
    user_id = fields.CharField(max_length=MAX_ID)
    stop = fields.TextField()
    attempts = fields.IntField()
    started = fields.FloatField()
    ended = fields.FloatField()
    counted = fields.BooleanField(default=False, db_default=False)
    model = fields.TextField(default="", db_default="")
    failed = fields.BooleanField(default=False, db_default=False)
    times = fields.TextField(default="", db_default="")

    class Meta:
        table = "turns"
        indexes = (
            Index(fields=("chat_key", "id"), name="turns_chat_id"),
            Index(fields=("counted", "id"), name="turns_counted"),
            Index(fields=("user_id", "id"), name="turns_user_id"),
            Index(fields=("model", "id"), name="turns_model_id"),
            Index(fields=("failed", "id"), name="turns_failed_id"),
        )


class StepTable(Model):
    """One model reply of a turn, with the tail that did not run and what it cost."""

    id = fields.BigIntField(primary_key=True)
    turn_id = fields.BigIntField()
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH)
    user_id = fields.CharField(max_length=MAX_ID)
    position = fields.IntField()
    reply = fields.TextField()
    tail = fields.TextField()
    model = fields.TextField()
    prompt_tokens = fields.BigIntField()
    cached_tokens = fields.BigIntField()
    completion_tokens = fields.BigIntField()
    estimated = fields.BooleanField()
    cost = fields.FloatField()
    started = fields.FloatField()
    seconds = fields.FloatField()
    price_source = fields.CharField(max_length=16, default="", db_default="")

    class Meta:
        table = "steps"
        unique_together = (("turn_id", "position"),)
        indexes = (Index(fields=("started",), name="steps_started"),)


class PromptTable(Model):
    """What the model was shown in one step, as record numbers and hashes of parts
    (`nekro_core.store.prompt_recipe`), and the step's times (`nekro_core.store.turn_trace`). A
    request without a reply has a row here and none in ``steps``, and ``error`` says why."""

    id = fields.BigIntField(primary_key=True)
    turn_id = fields.BigIntField()
    position = fields.IntField()
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH)
    recipe = fields.TextField()
    times = fields.TextField()
    error = fields.TextField()

    class Meta:
        table_description = (
            "What the model was shown in one step, as record numbers and hashes of parts, and its "
            "times."
        )
        table = "prompts"
        unique_together = (("turn_id", "position"),)


class PromptPartTable(Model):
    """A text or a picture of prompts that is no record, stored once. ``chat_key`` is empty for what
    cannot contain words of people, such as the rules and the list of functions. ``used`` is the
    time of a use, at most an hour before the last use."""

    hash = fields.CharField(max_length=64, primary_key=True)
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH, db_index=True)
    data = fields.BinaryField()
    used = fields.FloatField(db_index=True)

    class Meta:
        table_description = (
            "A text or picture of prompts that is no record. Its chat is empty if it has no words "
            "of people."
        )
        table = "prompt_parts"


class RunTable(Model):
    """One execution of a reply's code. ``stop`` is empty while it runs."""

    run_id = fields.CharField(max_length=64, primary_key=True)
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH)
    turn_id = fields.BigIntField(db_index=True)
    step = fields.IntField()
    code = fields.TextField()
    output = fields.TextField()
    stop = fields.TextField()
    error = fields.TextField()
    started = fields.FloatField()
    seconds = fields.FloatField()

    class Meta:
        table = "runs"


class ToolCallTable(Model):
    """One call of a tool by a run."""

    id = fields.BigIntField(primary_key=True)
    run_id = fields.CharField(max_length=64)
    position = fields.IntField()
    name = fields.TextField()
    arguments = fields.TextField()
    outcome = fields.TextField()
    started = fields.FloatField()
    seconds = fields.FloatField()
    result = fields.TextField(default="", db_default="")

    class Meta:
        table = "tool_calls"
        unique_together = (("run_id", "position"),)


class DeliveryTable(Model):
    """One platform call. A call that was requested earlier has a smaller ``id``."""

    id = fields.BigIntField(primary_key=True)
    delivery_id = fields.CharField(max_length=64, unique=True)
    chat_key = fields.CharField(max_length=MAX_KEY_LENGTH)
    run_id = fields.CharField(max_length=64, db_index=True)
    position = fields.IntField()
    segments = fields.TextField()
    state = fields.CharField(max_length=16, db_index=True)
    message_id = fields.TextField()
    reason = fields.TextField()
    record_seq = fields.BigIntField()
    created = fields.FloatField()
    changed = fields.FloatField()

    class Meta:
        table_description = (
            "One platform call. ``id`` keeps the order in which they were asked for."
        )
        table = "deliveries"


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

    class Meta:
        table_description = (
            "What a plugin asked of a model and what it cost. The key of the plugin and the "
            "chat, person"
        )
        table = "model_uses"
        indexes = (Index(fields=("started",), name="model_uses_started"),)


class AuditLogTable(Model):
    """One action of an operator. ``old``, ``new`` and the parameters are JSON. ``outcome`` is empty
    while the action runs."""

    id = fields.BigIntField(primary_key=True)
    at = fields.FloatField()
    ended = fields.FloatField()
    actor = fields.CharField(max_length=MAX_ID)
    role = fields.CharField(max_length=16)
    origin = fields.CharField(max_length=16)
    address = fields.CharField(max_length=64)
    action = fields.CharField(max_length=128)
    parameters = fields.TextField()
    subject = fields.CharField(max_length=MAX_ID)
    old = fields.TextField()
    new = fields.TextField()
    outcome = fields.CharField(max_length=16)
    error = fields.TextField()
    undo_action = fields.CharField(max_length=128)
    undo_parameters = fields.TextField()
    undone_by = fields.BigIntField()

    class Meta:
        table_description = "One action of an operator, with the values before and after it."
        table = "audit_log"
        indexes = (
            Index(fields=("subject", "id"), name="audit_subject_id"),
            Index(fields=("actor", "id"), name="audit_actor_id"),
        )


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


class ConsolePersonTable(Model):
    """A person who may open the console. ``name_key`` is the name in the form in which names are
    compared. ``totp_step`` is the time step of the newest code that was used. An empty text means
    that there is no password or no second factor."""

    id = fields.IntField(primary_key=True)
    name = fields.CharField(max_length=64)
    name_key = fields.CharField(max_length=MAX_ID, unique=True)
    role = fields.CharField(max_length=16)
    state = fields.CharField(max_length=16)
    password_hash = fields.TextField()
    totp_secret = fields.TextField()
    totp_pending = fields.TextField()
    totp_step = fields.BigIntField()
    created = fields.FloatField()

    class Meta:
        table_description = "A person who may open the console, with role, password and code."
        table = "console_people"


class ConsoleRecoveryCodeTable(Model):
    """A code that works once instead of the second factor. Only its hash is stored."""

    id = fields.IntField(primary_key=True)
    person_id = fields.IntField()
    code_hash = fields.CharField(max_length=64)

    class Meta:
        table_description = "The hash of a code that works once instead of the second factor."
        table = "console_recovery_codes"
        unique_together = (("person_id", "code_hash"),)


class ConsoleInvitationTable(Model):
    """A link with which a person chooses a password. It works once."""

    id = fields.IntField(primary_key=True)
    person_id = fields.IntField(unique=True)
    token_hash = fields.CharField(max_length=64, unique=True)
    expires = fields.FloatField()

    class Meta:
        table_description = "A link with which a person chooses a password. It works once."
        table = "console_invitations"


class ConsoleSessionTable(Model):
    """A browser that is logged in. Only the hash of its cookie is stored."""

    id = fields.IntField(primary_key=True)
    person_id = fields.IntField(db_index=True)
    session_hash = fields.CharField(max_length=64, unique=True)
    created = fields.FloatField()
    last_used = fields.FloatField()
    expires = fields.FloatField()
    address = fields.CharField(max_length=64)
    user_agent = fields.CharField(max_length=256)

    class Meta:
        table_description = "A browser that is logged in. Only the hash of its cookie is stored."
        table = "console_sessions"


class ConsoleTokenTable(Model):
    """A token of the HTTP API. ``prefix`` is its beginning, which is no secret. ``scopes`` are
    separated by spaces. ``expires`` and ``last_used`` are 0 for never."""

    id = fields.IntField(primary_key=True)
    person_id = fields.IntField(db_index=True)
    token_hash = fields.CharField(max_length=64, unique=True)
    prefix = fields.CharField(max_length=32)
    name = fields.CharField(max_length=64)
    scopes = fields.TextField()
    created = fields.FloatField()
    expires = fields.FloatField()
    last_used = fields.FloatField()

    class Meta:
        table_description = "A token of the HTTP API. Only its hash is stored."
        table = "console_tokens"


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
    """How many latencies of one hour, day or month fell into one bucket
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
    """Up to which row a table is in the statistics."""

    name = fields.CharField(max_length=32, primary_key=True)
    through = fields.BigIntField()

    class Meta:
        table_description = "Up to which row a table is in the statistics"
        table = "counted"


class DocumentTable(Model):
    """A revision of a text that the operator edits. The revision with the highest ``number`` is the
    current one. If it is ``removed``, there is no such document now."""

    id = fields.BigIntField(primary_key=True)
    name = fields.CharField(max_length=200)
    number = fields.BigIntField()
    text = fields.TextField()
    saved = fields.FloatField()
    removed = fields.BooleanField(default=False, db_default=False)

    class Meta:
        table_description = "A revision of a text that the operator edits."
        table = "documents"
        unique_together = (("name", "number"),)
