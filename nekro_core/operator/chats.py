"""Shows the chats of all platforms with their history and members, and changes what the bot does in
them."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Literal, Protocol

import msgspec
from pydantic import Field, ValidationError

from nekro_core.chat import (
    Author,
    ChatKey,
    DeliveryState,
    Media,
    Receipt,
    Record,
    Segments,
    Text,
    plain_text,
)
from nekro_core.delivery.activity import Activity
from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change, UndoCall
from nekro_core.operator.contract import ActivityFeed
from nekro_core.operator.errors import ChangedMeanwhile, InvalidParameters, NoSuchItem
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.policy import ChatOverrides, ChatState, PolicyFile
from nekro_core.policy.resolver import PolicyResolver
from nekro_core.store import ChatMember, ChatSummary, HistoryLine, Store, Usage
from nekro_core.store.traces import media_in

_PREVIEW = 120
"""Maximum number of characters of the newest message in a list."""
MAX_SAID = 20_000
"""Maximum number of characters that an operator says at once."""
PolicyField = Literal[
    "state",
    "persona",
    "persona_name",
    "names",
    "private",
    "model",
    "mode",
    "chat_quota",
    "person_quota",
    "commands",
    "operators",
    "ignore",
]
Limit = Annotated[int, Field(ge=1, le=500)]
Seq = Annotated[int, Field(ge=0)]


class ChatControl(Protocol):
    """The running turns (`nekro_core.agent.session.sessions.Sessions`)."""

    def working(self, chat_key: ChatKey) -> bool:
        """Whether a turn of the chat runs."""

    async def stop(self, chat_key: ChatKey) -> bool:
        """Stop the chat's running turn. Returns False if no turn runs."""

    async def reset(self, chat_key: ChatKey) -> None:
        """Begin a new conversation."""


class MediaReading(Protocol):
    """The stored media of chats (`nekro_core.delivery.media.store.MediaStore`)."""

    async def read(self, chat_key: ChatKey, path: str) -> bytes | None:
        """Read a medium by its `Media.path`. None if it was deleted."""


class MessageSending(Protocol):
    """Sends a message (`nekro_core.delivery.outbound.outbox.Outbox`)."""

    async def send(self, chat_key: ChatKey, segments: Segments) -> tuple[Receipt, ...]:
        """Send a message. Returns the outcome of each platform call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageView:
    """What turns used. ``cost`` is in the operator's currency, and where nobody named a price, in
    US dollars: ``published_cost`` is that part. ``unpriced`` requests have no known price."""

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
        name: What the platform calls it, or the person of a private chat; empty if not known.
        state: Whether the bot answers there.
        working: Whether a turn runs there now.
        newest_seq: The number of the newest message.
        newest_time: When it was written, in seconds since 1970.
        newest_by: The name of its author; empty for the bot.
        newest_text: Its beginning.
        messages: How many messages people wrote, of all time.
        sent: How many messages the bot sent, of all time.
        used: What the turns used, of all time.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatsView:
    """A part of the list. ``before`` is the argument for the next part; 0 at the end."""

    chats: list[ChatRowView]
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionView:
    """Why the bot answered a message, or why not.

    Attributes:
        reason: A `nekro_core.store.DecisionReason`; empty if nothing is stored: the bot has just
            received the message, or it did so before it stored reasons.
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
    """A picture, voice, video or file of a message. `Chats.medium` finds its bytes by ``number``,
    its place in the message from 0. ``problem`` says why the bot has no copy."""

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
        recalled: Whether its author recalled it, or a plugin hid it; ``decision`` says which.
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
    """A part of what a search finds, newest first. ``before`` is the argument for the next part; 0
    if all messages were searched. A part may be empty although others are not."""

    messages: list[MessageView]
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """A person in a chat. ``role`` is empty if the person has written nothing for long."""

    user_id: str
    name: str
    role: str
    messages: int
    day: UsageView
    ever: UsageView


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPolicyView:
    """How the bot behaves in a chat.

    Attributes:
        own: The fields that are set for this chat.
        state: Whether the bot answers.
        persona: The persona in force.
        persona_name: The persona of the library from which it comes; empty if it comes from
            elsewhere.
        names: The names by which people call the bot.
        private: Whether all messages of a private chat are answered.
        model: The model that answers.
        mode: ``code`` or ``tools``.
        chat_quota: What the chat may use in 24 hours.
        person_quota: What each person may use.
        commands: The permissions that commands require here, other than the usual ones.
        operators: Platform ids of people who have the permission ``advanced`` here.
        ignored: Platform ids of people and bots that get no answer here.
        revision: Changes whenever ``own`` changes; see `Chats.set_policy`.
    """

    own: dict[str, Any]
    state: ChatState
    persona: str
    persona_name: str
    names: tuple[str, ...]
    private: bool
    model: str
    mode: str
    chat_quota: dict[str, Any]
    person_quota: dict[str, Any]
    commands: dict[str, str]
    operators: list[str]
    ignored: list[str]
    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SentView:
    """The outcome of one platform call. ``reason`` says why it failed."""

    state: DeliveryState
    reason: str


class Chats(Area):
    """The chats of all platforms.

    Args:
        audit: The audit log.
        store: The store.
        policies: Resolves and changes how the bot behaves in a chat.
        sessions: The running turns.
        outbox: Sends messages.
        activity: The events in the chats.
        media: The stored media of chats.
    """

    name = "chats"

    def __init__(
        self,
        audit: AuditLog,
        *,
        store: Store,
        policies: PolicyResolver,
        sessions: ChatControl,
        outbox: MessageSending,
        activity: ActivityFeed,
        media: MediaReading,
    ) -> None:
        super().__init__(audit)
        self._store = store
        self._policies = policies
        self._sessions = sessions
        self._outbox = outbox
        self._activity = activity
        self._media = media

    @query(role=AccessRole.VIEWER)
    async def newest(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        platform: str = "",
        instance: str = "",
        state: ChatState | None = None,
        text: str = "",
        before: Seq = 0,
        limit: Limit = 50,
    ) -> ChatsView:
        """List chats, those with the newest message first.

        Args:
            platform: Only chats of this adapter.
            instance: Only chats of the account with this instance.
            state: Only chats in this state.
            text: Only chats whose name or key contains this, or whose person has such a name.
            before: The ``before`` of the last answer; 0 for the beginning.
            limit: The largest number of chats.
        """
        page = await self._store.chat_list.page(
            adapter=platform,
            instance=instance,
            text=text,
            where=self._has_state(state),
            before=before,
            limit=limit,
        )
        return ChatsView(chats=[self._chat(each) for each in page.chats], before=page.before)

    @query(role=AccessRole.VIEWER)
    async def one(self, actor: Actor, *, chat_key: ChatKey) -> ChatRowView:  # noqa: ARG002
        """Get one chat.

        Args:
            chat_key: The chat.
        """
        return self._chat(await self._known(chat_key))

    @query(role=AccessRole.VIEWER)
    async def history(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        before: Seq = 0,
        after: Seq = 0,
        limit: Limit = 50,
    ) -> list[MessageView]:
        """Get messages of a chat, oldest first: the newest, or those around a message.

        Args:
            chat_key: The chat.
            before: A message's number: get the newest ones before it.
            after: A message's number: get the oldest ones after it.
            limit: The largest number of messages.
        """
        lines = await self._store.chat_list.history(
            chat_key, before=before, after=after, limit=limit
        )
        return [_message(line) for line in lines]

    @query(role=AccessRole.VIEWER)
    async def search(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        text: Annotated[str, Field(min_length=1, max_length=200)],
        chat_key: ChatKey | None = None,
        before: Seq = 0,
        limit: Annotated[int, Field(ge=1, le=200)] = 50,
    ) -> FoundView:
        """Find messages that contain a text, newest first. An answer takes about 0.1 s and may end
        before all messages were searched; then ask again with its ``before``.

        Args:
            text: A word or a part of a message.
            chat_key: Only messages of this chat.
            before: The ``before`` of the last answer; 0 for the beginning.
            limit: The largest number of messages.
        """
        if not text.strip():
            raise InvalidParameters({"text": "expected a word or a part of a message"})
        found = await self._store.search.find(text, chat_key=chat_key, before=before, limit=limit)
        return FoundView(messages=[_message(line) for line in found.lines], before=found.before)

    @query(role=AccessRole.VIEWER)
    async def members(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        limit: Limit = 200,
    ) -> list[MemberView]:
        """List the people of a chat, those first who wrote most.

        Args:
            chat_key: The chat.
            limit: The largest number of people.
        """
        found = await self._store.chat_list.members(chat_key, limit=limit)
        return [_member(each) for each in found]

    @query(role=AccessRole.VIEWER)
    async def decision(self, actor: Actor, *, seq: Seq) -> DecisionView:  # noqa: ARG002
        """Get why the bot answered a message, or why not.

        Args:
            seq: The message's number.
        """
        return _decision(await self._line(seq))

    @query(role=AccessRole.VIEWER)
    async def policy(self, actor: Actor, *, chat_key: ChatKey) -> ChatPolicyView:  # noqa: ARG002
        """Get how the bot behaves in a chat.

        Args:
            chat_key: The chat.
        """
        return self._policy(chat_key)

    @action(role=AccessRole.OPERATOR)
    async def set_policy(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        field: PolicyField,
        value: Any = None,
        revision: str = "",
    ) -> Change[ChatPolicyView]:
        """Change how the bot behaves in a chat. The change is in force at once.

        Args:
            chat_key: The chat.
            field: What to change: a field of a table of the file of overrides.
            value: The new value; nothing to use the value of the account or the bot again.
            revision: The ``revision`` of the policy that was shown. If somebody changed the policy
                since, nothing is changed. Empty to change it in any case.
        """
        own = self._own(chat_key)
        if revision and revision != _revision(own):
            raise ChangedMeanwhile(
                f"the policy of {chat_key} was changed meanwhile: look at it again"
            )
        old = own.get(field)
        new = None if value is None else _checked(field, value)
        await self._file.put(("chats", str(chat_key)), field, new)
        undo = UndoCall(
            action="chats.set_policy",
            parameters={"chat_key": str(chat_key), "field": field, "value": old},
        )
        return Change(
            result=self._policy(chat_key),
            subject=str(chat_key),
            old={field: old},
            new={field: new},
            undo=undo,
        )

    @action(role=AccessRole.OPERATOR)
    async def say(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        text: Annotated[str, Field(min_length=1, max_length=MAX_SAID)],
    ) -> Change[list[SentView]]:
        """Say something in a chat as the bot. The agent sees it in the history.

        Args:
            chat_key: The chat.
            text: What to say.
        """
        await self._known(chat_key)
        receipts = await self._outbox.send(chat_key, (Text(text),))
        sent = [SentView(state=each.state, reason=each.reason) for each in receipts]
        return Change(result=sent, subject=str(chat_key), new=text)

    @action(role=AccessRole.OPERATOR)
    async def stop(self, actor: Actor, *, chat_key: ChatKey) -> Change[bool]:  # noqa: ARG002
        """Stop the turn that runs in a chat. Returns whether one ran.

        Args:
            chat_key: The chat.
        """
        return Change(result=await self._sessions.stop(chat_key), subject=str(chat_key))

    @action(role=AccessRole.OPERATOR, destructive=True)
    async def reset(self, actor: Actor, *, chat_key: ChatKey) -> Change[None]:  # noqa: ARG002
        """Begin a new conversation in a chat: the agent forgets what was said, and the boxes of the
        chat are removed with their files. The history stays.

        Args:
            chat_key: The chat.
        """
        await self._known(chat_key)
        await self._sessions.reset(chat_key)
        return Change(result=None, subject=str(chat_key))

    async def medium(self, seq: int, number: int) -> tuple[ChatKey, Media]:
        """Find a medium of a message, for a page that shows it.

        Args:
            seq: The message's number.
            number: `MediumView.number`.

        Returns:
            The chat and the medium, whose path `MediaStore.read` takes.

        Raises:
            NoSuchItem: There is no such message or medium.
        """
        record = (await self._line(seq)).record
        media = [*media_in(record.segments)]
        if not 0 <= number < len(media):
            raise NoSuchItem(f"message {seq} has no medium {number}")
        return record.chat_key, media[number]

    async def medium_bytes(self, seq: int, number: int) -> tuple[Media, bytes]:
        """Read a medium of a message, for a page that shows it.

        Args:
            seq: The message's number.
            number: `MediumView.number`.

        Returns:
            The medium and its bytes.

        Raises:
            NoSuchItem: There is no such message or medium, or the bot has no copy.
        """
        chat_key, medium = await self.medium(seq, number)
        data = await self._media.read(chat_key, medium.path) if medium.path else None
        if data is None:
            raise NoSuchItem(f"the bot has no copy of medium {number} of message {seq}")
        return medium, data

    def follow(
        self, chat_key: ChatKey | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[Activity]]:
        """Follow the events of one chat, or of all, for a page that shows them. If the caller reads
        so slowly that its queue is full, the iteration ends.

        Args:
            chat_key: The chat; None for all.

        Returns:
            A context whose value iterates over the events.
        """
        return self._activity.watch(chat_key)

    @property
    def _file(self) -> PolicyFile:
        return self._policies.conduct

    def _own(self, chat_key: ChatKey) -> dict[str, Any]:
        table = self._file.book.chats.get(str(chat_key))
        return _plain(table) if table is not None else {}

    def _policy(self, chat_key: ChatKey) -> ChatPolicyView:
        policy, own = self._policies.of(chat_key), self._own(chat_key)
        merged = self._file.of(chat_key)
        return ChatPolicyView(
            own=own,
            state=policy.state,
            persona=policy.persona,
            persona_name=merged.persona_name or "" if merged.persona is None else "",
            names=policy.names,
            private=policy.trigger.private,
            model=policy.model.profile.name,
            mode=policy.mode,
            chat_quota=policy.chat_quota.model_dump(mode="json"),
            person_quota=policy.person_quota.model_dump(mode="json"),
            commands={**merged.commands},
            operators=sorted(merged.operators),
            ignored=sorted(merged.ignore),
            revision=_revision(own),
        )

    def _has_state(self, state: ChatState | None) -> Callable[[ChatKey], bool]:
        if state is None:
            return lambda _: True
        return lambda chat_key: self._policies.of(chat_key).state is state

    async def _known(self, chat_key: ChatKey) -> ChatSummary:
        chat = await self._store.chat_list.one(chat_key)
        if chat is None:
            raise NoSuchItem(f"the bot knows no chat {chat_key}")
        return chat

    async def _line(self, seq: int) -> HistoryLine:
        line = await self._store.chat_list.line(seq)
        if line is None:
            raise NoSuchItem(f"there is no message {seq}")
        return line

    def _chat(self, chat: ChatSummary) -> ChatRowView:
        newest = chat.newest
        return ChatRowView(
            chat_key=chat.chat_key,
            platform=chat.adapter,
            account=chat.account,
            kind=chat.chat_key.kind.value,
            name=chat.name,
            state=self._policies.of(chat.chat_key).state,
            working=self._sessions.working(chat.chat_key),
            newest_seq=newest.seq if newest else 0,
            newest_time=newest.time if newest else 0.0,
            newest_by=newest.sender.name if newest else "",
            newest_text=_preview(newest),
            messages=chat.messages,
            sent=chat.sent,
            used=_used(chat.used),
        )


def _plain(table: ChatOverrides) -> dict[str, Any]:
    """Return the fields that a table sets, as JSON values. Sets are sorted."""
    found = table.model_dump(mode="json", exclude_unset=True)
    return {
        name: sorted(value) if name in ("operators", "ignore") else value
        for name, value in found.items()
    }


def _checked(field: str, value: Any) -> Any:
    """Return a field's value as the file has it. Raises `InvalidParameters`."""
    try:
        table = ChatOverrides.model_validate({field: value})
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(each) for each in fault["loc"][1:])
        told = fault["msg"].removeprefix("Value error, ")
        raise InvalidParameters({f"value.{place}" if place else "value": told}) from None
    return _plain(table)[field]


def _revision(own: Mapping[str, Any]) -> str:
    return sha256(msgspec.json.encode(own, order="deterministic")).hexdigest()[:16]


def _preview(record: Record | None) -> str:
    if record is None or record.recalled:
        return ""
    return plain_text(record.segments)[:_PREVIEW]


def _message(line: HistoryLine) -> MessageView:
    record = line.record
    return MessageView(
        seq=record.seq,
        chat_key=record.chat_key,
        author=record.author,
        user_id=record.sender.user_id,
        user_name=record.sender.name,
        role=record.sender.role.value,
        time=record.time,
        text=plain_text(record.segments),
        segments=[_without_paths(each) for each in msgspec.to_builtins(record.segments)],
        media=[_medium(number, each) for number, each in enumerate(media_in(record.segments))],
        message_id=record.message_id,
        recalled=record.recalled,
        run_id=record.run_id,
        state=record.state,
        decision=_decision(line),
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


def _decision(line: HistoryLine) -> DecisionView:
    found = line.decision
    if found is None:
        return DecisionView()
    return DecisionView(
        reason=found.reason.value,
        asked=found.reason.asks,
        detail=found.detail,
        turn_id=found.turn_id,
    )


def _member(member: ChatMember) -> MemberView:
    return MemberView(
        user_id=member.user_id,
        name=member.name,
        role=member.role.value if member.role else "",
        messages=member.messages,
        day=_used(member.day),
        ever=_used(member.ever),
    )


def _used(usage: Usage) -> UsageView:
    return UsageView(
        turns=usage.turns,
        requests=usage.steps,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost=usage.cost,
        published_cost=usage.published_cost,
        unpriced=usage.unpriced,
    )
