"""The values of the store, besides those of `nekro_core.chat`. They are frozen. Times are seconds
since 1970."""

from dataclasses import dataclass

from nekro_core.chat import ChatKey, DeliveryState, Record, Segments


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One account of the bot on a platform, and the instance that it is bound to. ``bound`` is when
    that was, in seconds since 1970."""

    adapter: str
    account: str
    instance: str
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """One turn of a chat.

    ``trigger_seq`` is the record that woke it, ``through_seq`` the newest that a step of it has
    seen. ``stop`` says why it ended and is empty while it runs. ``attempts`` counts its starts: 1
    for a turn that was never interrupted.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One model reply and what it cost.

    Attributes:
        position: The step's number in its turn, from 0.
        reply: All that the model wrote.
        tail: The end of the reply that did not run.
        model: The model's name.
        prompt_tokens: Tokens of the request.
        cached_tokens: How many of them the provider had cached.
        completion_tokens: Tokens of the reply.
        estimated: Whether no provider confirmed the token counts.
        cost: In the operator's currency.
        started: Seconds since 1970.
        seconds: How long the reply took.
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
    started: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool by a run. ``arguments`` is JSON text of limited length. ``outcome`` is
    ``ok``, or says what went wrong."""

    position: int
    name: str
    arguments: str
    outcome: str
    started: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    """One platform call that was, is or will be made.

    Attributes:
        delivery_id: Our own unique id.
        chat_key: The chat it goes to.
        run_id: The run that requested it; empty where none did.
        position: Counts the pieces of one send.
        segments: What is sent in this one call.
        state: Its state.
        message_id: The platform's id of the sent message; empty where it gave none.
        reason: Tells a person why it was rejected or dropped, or why the outcome is unknown.
        record_seq: The line of the history that shows it; 0 where none does.
        created: Seconds since 1970.
        changed: When the state changed last, in seconds since 1970.
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
    """The messages of one chat that are not handled or seen yet, oldest first."""

    chat_key: ChatKey
    handled_seq: int
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The sum of several model replies.

    Attributes:
        turns: Turns with a reply that was paid for.
        steps: Their replies.
        prompt_tokens: Tokens of the requests.
        completion_tokens: Tokens of the replies.
        cost: In the operator's currency.
    """

    turns: int = 0
    steps: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTurn:
    """A turn as an operator sees it.

    Attributes:
        turn: The turn's row.
        asked: The record that woke it; None where it was erased or deleted.
        usage: The sum of its replies.
        model: The model that was asked; empty where none was.
    """

    turn: TurnRow
    asked: Record | None
    usage: Usage
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerRow:
    """A time at which a chat's agent is woken (`nekro_core.timers`).

    ``kind`` is ``once``, ``temporary`` or ``recurring``, ``state`` is ``active``, ``paused`` or
    ``over``. ``due`` is the next time, 0 where there is none. ``told_due`` is the last time that
    was announced in the chat's history, and ``record_seq`` the record that announces it; both are 0
    before the first.
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
    """One request of a plugin to a model, for whom it was made, and what it cost."""

    plugin: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    estimated: bool = False
    cost: float = 0.0
    chat_key: str = ""
    user_id: str = ""
    run_id: str = ""
    started: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """Something that waits: a command's question to a person, or a plugin's task.

    ``kind`` and ``name`` are its key. ``data`` is JSON text of the code that waits. ``until`` is
    when it stops waiting, 0 for never.
    """

    kind: str
    name: str
    plugin: str
    chat_key: str
    user_id: str = ""
    data: str = "{}"
    created: float = 0.0
    until: float = 0.0
