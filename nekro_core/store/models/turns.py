"""The tables of turns: steps, prompts, runs of code, tool calls and deliveries."""

from tortoise import fields
from tortoise.indexes import Index
from tortoise.models import Model

from nekro_core.chat import MAX_KEY_LENGTH
from nekro_core.store.limits import MAX_ID


class TurnTable(Model):
    """One turn. ``running_chat`` is the chat while it runs and null after, so that its unique key
    lets a chat have one running turn and any number of ended turns. ``counted`` says whether the
    turn is in the statistics. ``failed`` says whether a run or a request failed, or the turn ended
    with a fault. ``times`` is JSON, see `nekro_core.store.turn_trace`. The index
    ``turns_chat_times`` has all that `nekro_core.store.turn_latency` reads of a chat."""

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
    first_words = fields.FloatField(null=True)

    class Meta:
        table = "turns"
        indexes = (
            Index(
                fields=("chat_key", "id", "started", "ended", "first_words", "running_chat"),
                name="turns_chat_times",
            ),
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
    """One execution of a reply's code. ``stop`` is the reason why it ended. While it runs, ``stop``
    is empty, or ``saying`` if the run sends words."""

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
