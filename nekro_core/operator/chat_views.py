"""Defines what operators see of chats, messages and members, and makes these views from rows of the
store."""

from dataclasses import dataclass
from typing import Any

import msgspec

from nekro_core.chat import Author, ChatKey, DeliveryState, Media, Record, Segments, plain_text
from nekro_core.policy import ChatState
from nekro_core.store import ChatMember, ChatSummary, HistoryLine, Usage
from nekro_core.store.traces import media_in

_PREVIEW = 120
"""Maximum number of characters of the newest message in a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageView:
    """What turns used. ``cost`` is in the operator's currency, except for models whose price the
    operator has not set: their cost is estimated in US dollars from published prices. This part of
    ``cost`` is ``published_cost``. ``unpriced`` is the number of requests without a known price."""

    turns: int
    requests: int
    prompt_tokens: int
    completion_tokens: int
    cost: float
    published_cost: float = 0.0
    unpriced: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRowView:
    """A chat in the list.

    Attributes:
        chat_key: The chat.
        platform: The adapter of its platform.
        account: The bot's account.
        kind: ``group``, ``private`` or ``channel``.
        name: The platform's name of the chat, or the name of the person of a private chat; empty if
            not known.
        state: Whether the bot answers in the chat.
        working: Whether a turn of the chat runs now.
        newest_seq: The number of the newest message.
        newest_time: When it was written, in seconds since 1970.
        newest_by: The name of its author; empty for the bot.
        newest_text: The beginning of the newest message.
        messages: How many messages people wrote, of all time.
        sent: How many messages the bot sent, of all time.
        used: What the turns used, of all time.
        worker: In a cluster, the worker that owns the chat; empty if none does now.
    """

    chat_key: ChatKey
    platform: str
    account: str
    kind: str
    name: str
    state: ChatState
    working: bool
    newest_seq: int
    newest_time: float
    newest_by: str
    newest_text: str
    messages: int
    sent: int
    used: UsageView
    worker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatsView:
    """A part of the list. ``before`` is the argument for the next part; 0 at the end."""

    chats: list[ChatRowView]
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionView:
    """Why the bot answered a message, or why not.

    Attributes:
        reason: A `nekro_core.store.DecisionReason`; empty if none is stored, because the bot has
            not decided yet or an earlier version of the bot stored no reasons.
        asked: Whether the message asked for an answer.
        detail: Which name, plugin, command, notice or quota it was.
        turn_id: The turn that read the message; 0 if there is none.
    """

    reason: str = ""
    asked: bool = False
    detail: str = ""
    turn_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MediumView:
    """A picture, voice, video or file of a message. ``number`` is its place among the media of the
    message, from 0; `nekro_core.operator.chats.Chats.medium_bytes` reads its bytes by this number.
    ``problem`` says why the bot has no copy."""

    number: int
    name: str
    mime: str
    size: int
    seconds: float
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """One line of a history.

    Attributes:
        seq: Its number. Later lines have larger numbers.
        chat_key: The chat.
        author: ``person``, ``bot`` or ``system``.
        user_id: The platform's id of the person.
        user_name: The person's name when the message was written.
        role: The person's role in the chat.
        time: Seconds since 1970.
        text: The content as text. Media are named in brackets.
        segments: The content in parts, without the paths and addresses of media.
        media: The media in it.
        message_id: The platform's id.
        recalled: Whether its author recalled it, or a plugin hid it; ``decision`` says which. Then
            ``text``, ``segments`` and ``media`` are empty, except in the answer of
            `nekro_core.operator.chats.Chats.show_recalled`.
        run_id: The run that sent it, if the bot sent it.
        state: The state of delivery, if the bot sent it.
        decision: Why the bot answered it, or why not.
    """

    seq: int
    chat_key: ChatKey
    author: Author
    user_id: str
    user_name: str
    role: str
    time: float
    text: str
    segments: list[dict[str, Any]]
    media: list[MediumView]
    message_id: str
    recalled: bool
    run_id: str
    state: DeliveryState
    decision: DecisionView


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundView:
    """A part of the results of a search, newest first. ``before`` is the argument for the next
    part; 0 if all messages were searched. A part may be empty even if a later part has messages."""

    messages: list[MessageView]
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """A person in a chat. ``role`` is empty if the person has not written for a long time.
    ``messages`` is the number of messages that the person wrote. ``day`` and ``ever`` are what the
    person's turns in this chat used, in the last 24 hours and of all time."""

    user_id: str
    name: str
    role: str
    messages: int
    day: UsageView
    ever: UsageView


@dataclass(frozen=True, slots=True, kw_only=True)
class SentView:
    """The outcome of one platform call. ``reason`` says why it failed."""

    state: DeliveryState
    reason: str


def chat_view(
    chat: ChatSummary, state: ChatState, *, working: bool, worker: str = ""
) -> ChatRowView:
    """Return a chat of the list. ``working`` says whether a turn runs there, ``worker`` names the
    process that owns the chat."""
    newest = chat.newest
    return ChatRowView(
        chat_key=chat.chat_key,
        platform=chat.adapter,
        account=chat.account,
        kind=chat.chat_key.kind.value,
        name=chat.name,
        state=state,
        working=working,
        newest_seq=newest.seq if newest else 0,
        newest_time=newest.time if newest else 0.0,
        newest_by=newest.sender.name if newest else "",
        newest_text=_preview(newest),
        messages=chat.messages,
        sent=chat.sent,
        used=usage_view(chat.used),
        worker=worker,
    )


def _preview(record: Record | None) -> str:
    if record is None or record.recalled:
        return ""
    return _text(record, record.segments)[:_PREVIEW]


def _text(record: Record, segments: Segments) -> str:
    """Return the text of a record. The mark of a new conversation is no text: the words after it
    say what it is."""
    marked = record.begins_anew and len(segments) > 1
    return plain_text(segments[1:] if marked else segments)


def message_view(line: HistoryLine, *, with_recalled: bool = False) -> MessageView:
    """Return one line of a history. The content of a recalled message is left out, unless
    ``with_recalled``."""
    record = line.record
    segments = () if record.recalled and not with_recalled else record.segments
    return MessageView(
        seq=record.seq,
        chat_key=record.chat_key,
        author=record.author,
        user_id=record.sender.user_id,
        user_name=record.sender.name,
        role=record.sender.role.value,
        time=record.time,
        text=_text(record, segments),
        segments=[_without_paths(each) for each in msgspec.to_builtins(segments)],
        media=[_medium(number, each) for number, each in enumerate(media_in(segments))],
        message_id=record.message_id,
        recalled=record.recalled,
        run_id=record.run_id,
        state=record.state,
        decision=decision_view(line),
    )


def _without_paths(value: Any) -> Any:
    """Return the JSON of a segment without the paths and addresses of its media. An address may be
    secret, and a path says where the bot's files are."""
    match value:
        case {"media": {**medium}, **rest}:
            shown = {name: each for name, each in medium.items() if name not in ("path", "url")}
            return {"media": shown, **rest}
        case {**fields}:
            return {name: _without_paths(each) for name, each in fields.items()}
        case list() | tuple():
            return [_without_paths(each) for each in value]
        case _:
            return value


def _medium(number: int, medium: Media) -> MediumView:
    return MediumView(
        number=number,
        name=medium.name,
        mime=medium.mime,
        size=medium.size,
        seconds=medium.seconds,
        problem=medium.problem,
    )


def decision_view(line: HistoryLine) -> DecisionView:
    """Return why a message was answered, or why not."""
    found = line.decision
    if found is None:
        return DecisionView()
    return DecisionView(
        reason=found.reason.value,
        asked=found.reason.asks,
        detail=found.detail,
        turn_id=found.turn_id,
    )


def member_view(member: ChatMember) -> MemberView:
    """Return a person of a chat."""
    return MemberView(
        user_id=member.user_id,
        name=member.name,
        role=member.role.value if member.role else "",
        messages=member.messages,
        day=usage_view(member.day),
        ever=usage_view(member.ever),
    )


def usage_view(usage: Usage) -> UsageView:
    """Return what turns used."""
    return UsageView(
        turns=usage.turns,
        requests=usage.steps,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost=usage.cost,
        published_cost=usage.published_cost,
        unpriced=usage.unpriced,
    )
