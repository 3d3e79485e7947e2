"""Defines the values that the store reads and writes, in addition to the values of
`nekro_core.chat`. All are frozen. Times are seconds since 1970."""

from dataclasses import dataclass

from nekro_core.chat import ChatKey, DeliveryState, Record, Segments


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One account of the bot on a platform, and its instance. ``bound`` is the time at which the
    instance was created, in seconds since 1970."""

    adapter: str
    account: str
    instance: str
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """One turn of a chat.

    ``trigger_seq`` is the record that woke the turn, and ``through_seq`` the newest record that its
    steps have seen. ``user_id`` is the person whom it answers; empty if a system line woke it.
    ``stop`` says why the turn ended and is empty while the turn runs; ``ended`` is 0 as long.
    ``attempts`` counts how often the turn was started: 1 for a turn that was never interrupted.
    ``model`` is the name of the model that was asked. ``failed`` says whether anything in the turn
    failed. It is set when the turn ends.
    """

    turn_id: int
    chat_key: ChatKey
    trigger_seq: int
    through_seq: int
    user_id: str
    running: bool
    stop: str
    attempts: int
    started: float
    ended: float
    model: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFilter:
    """Which turns to list. A field that is empty, 0 or None does not restrict the list. ``since``
    and ``until`` are seconds since 1970; ``until`` is not included."""

    chat_key: ChatKey | None = None
    user_id: str = ""
    model: str = ""
    stop: str = ""
    failed: bool | None = None
    since: float = 0.0
    until: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One model reply and its cost.

    Attributes:
        position: The step's number in its turn, from 0.
        reply: The whole text that the model wrote.
        tail: The end of the reply, if it did not run.
        model: The model's name.
        prompt_tokens: Tokens of the request.
        cached_tokens: How many of ``prompt_tokens`` came from the provider's cache.
        completion_tokens: Tokens of the reply.
        estimated: Whether the bot estimated the token counts because the provider reported none.
        cost: The cost, in the currency of the price; 0 if the price is not known.
        price_source: Where the price comes from: ``operator``, ``published``, ``free`` or
            ``unknown``; empty if the step is older than this field.
        started: Seconds since 1970.
        seconds: How long the reply took, in seconds.
    """

    position: int
    reply: str
    tail: str = ""
    model: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    cost: float = 0.0
    price_source: str = ""
    started: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool by a run. ``arguments`` is JSON text of limited length. ``outcome`` is
    ``ok`` or the error. ``result`` is JSON (`nekro_core.agent.turn.call_results`), empty if it was
    not recorded."""

    position: int
    name: str
    arguments: str
    outcome: str
    started: float
    seconds: float
    result: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    """One platform call, which was made, is being made, or waits to be made.

    Attributes:
        delivery_id: The bot's unique id for the call.
        chat_key: The receiving chat.
        run_id: The run that requested the call; empty if no run did.
        position: The number of this piece within its message, from 0.
        segments: The content of this call.
        state: The state of the call.
        message_id: The platform's id of the sent message; empty if the platform gave none.
        reason: Says, for people, why the call was rejected or dropped, or why its outcome is
            unknown.
        record_seq: The ``seq`` of the record that shows the message in the history; 0 if there is
            none.
        created: Seconds since 1970.
        changed: When the state last changed, in seconds since 1970.
    """

    delivery_id: str
    chat_key: ChatKey
    run_id: str
    position: int
    segments: Segments
    state: DeliveryState
    message_id: str
    reason: str
    record_seq: int
    created: float
    changed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UnansweredMessages:
    """The messages of one chat that are neither handled nor seen by a turn, oldest first. The
    chat's records up to ``handled_seq`` are marked as handled."""

    chat_key: ChatKey
    handled_seq: int
    records: tuple[Record, ...]


PRICED = (
    "COALESCE(SUM(CASE WHEN price_source = 'published' THEN cost ELSE 0.0 END), 0.0) "
    "AS published_cost, "
    "COALESCE(SUM(CASE WHEN price_source = 'unknown' THEN 1 ELSE 0 END), 0) AS unpriced"
)
"""The SQL of two columns of `Usage`, for a SELECT from rows with ``cost`` and ``price_source``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The total of several model requests.

    Attributes:
        turns: The number of turns that have steps.
        steps: The number of steps.
        prompt_tokens: Tokens of the requests.
        completion_tokens: Tokens of the replies.
        cost: The cost, in the operator's currency. The part from published prices is in US dollars.
        published_cost: The part of ``cost`` that is estimated from published prices.
        unpriced: The number of requests whose price is not known. They count as 0 in ``cost``.
    """

    turns: int = 0
    steps: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    published_cost: float = 0.0
    unpriced: int = 0

    @property
    def tokens(self) -> int:
        """The sum of prompt and completion tokens."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTurn:
    """A turn with the data that an operator sees.

    Attributes:
        turn: The turn's row.
        asked: The record that woke the turn; None if the record was erased or deleted.
        usage: The total of its steps.
        model: The model that wrote its replies; empty if the turn has no steps.
    """

    turn: TurnRow
    asked: Record | None
    usage: Usage
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerRow:
    """A time at which a chat's agent is woken (`nekro_core.timers`).

    ``kind`` is ``once``, ``temporary`` or ``recurring``, ``state`` is ``active``, ``paused`` or
    ``over``. ``due`` is the next time, 0 if there is none. ``told_due`` is the latest due time that
    a record of the chat's history has reported. ``record_seq`` is the number of this record. Both
    are 0 before the first report.
    """

    timer_id: str
    chat_key: ChatKey
    kind: str
    state: str
    text: str
    title: str = ""
    cron: str = ""
    timezone: str = ""
    workdays: str = "none"
    due: float = 0.0
    told_due: float = 0.0
    record_seq: int = 0
    created: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """One request to a model outside of a turn's steps: who made it, the chat, person and run for
    which it was made, and its cost. ``plugin`` is the key of a plugin, or a part of the bot such as
    ``operator``. ``role`` is the role of the model; empty if it has none."""

    plugin: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    estimated: bool = False
    cost: float = 0.0
    price_source: str = ""
    chat_key: str = ""
    user_id: str = ""
    run_id: str = ""
    started: float = 0.0
    seconds: float = 0.0
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """Something that must survive a restart: a command's question to a person, or a plugin's task.

    ``kind`` and ``name`` are its key. ``data`` is JSON text whose content depends on ``kind``.
    ``until`` is the time at which it expires, 0 for never.
    """

    kind: str
    name: str
    plugin: str
    chat_key: str
    user_id: str = ""
    data: str = "{}"
    created: float = 0.0
    until: float = 0.0
