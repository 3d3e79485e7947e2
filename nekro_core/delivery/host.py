"""What the bot offers an adapter: its only way to anything behind the api."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from nekro_core.chat import ChatKey, ChatMessage, DeliveryState, Media, Record, RunRecord, Segments
from nekro_core.store import DeliveryRow, LoggedTurn, Step, Usage
from nekro_core.system.asgi import WebApplication
from nekro_core.tools.offer import OfferedTool, ToolAnswer


@dataclass(frozen=True, slots=True)
class Recorded:
    """A line was added to a chat's history, or one changed (recalled, delivery decided)."""

    record: Record


@dataclass(frozen=True, slots=True)
class Working:
    """A turn of the chat began (true) or ended (false)."""

    chat_key: ChatKey
    busy: bool


Activity = Recorded | Working


Expected = Literal["", "image", "audio", "video", "file"]
"""What a medium must turn out to be; ``file`` is anything, an empty text what its name claims."""


OPEN_STATES = (
    DeliveryState.PENDING,
    DeliveryState.SENDING,
    DeliveryState.UNKNOWN,
    DeliveryState.REJECTED,
)
"""States that an operator is shown where none is asked for: not what went well or was let go."""


class MediaKeeper(Protocol):
    """Bounded, sniffed storage of what a chat received. What cannot be had, or is not what was
    expected, comes back as a `Media` with a ``problem`` in words; nothing is raised for it."""

    async def keep_bytes(
        self, chat_key: ChatKey, data: bytes, *, name: str = "", expect: Expected = ""
    ) -> Media:
        """Store bytes that are already here."""

    async def keep_url(
        self, chat_key: ChatKey, url: str, *, name: str = "", expect: Expected = ""
    ) -> Media:
        """Fetch ``http(s)``, ``data:`` or ``base64://`` and store it."""


class MediaLinker(Protocol):
    """Makes links to kept media: signed, short-lived, answered by the bot's own web server."""

    def link(self, chat_key: ChatKey, media: Media, *, address: str = "") -> str:
        """A link to a medium of the chat. ``address`` is how whoever gets it reaches the bot's web
        server (``http://10.0.0.5:8080``), where the adapter knows; else the operator's setting.
        Empty where there is neither, or the medium is none that we keep."""


class ToolService(Protocol):
    """The bot's tools for programs that the operator lets in."""

    async def tools(self, chat_key: ChatKey | None) -> tuple[OfferedTool, ...]:
        """Those that a chat has now; without one those that need none."""

    async def call(
        self, chat_key: ChatKey | None, name: str, arguments: Mapping[str, Any]
    ) -> ToolAnswer:
        """Carry a call out. What goes wrong with it is an answer; cancelled, it ends what runs."""


class OutboxActions(Protocol):
    """What an operator sees of the messages that go out, and may do about them
    (`nekro_core.delivery.outbound.admin.OutboxAdmin`)."""

    async def listed(
        self,
        states: Collection[DeliveryState] = OPEN_STATES,
        *,
        chat_key: ChatKey | None = None,
        before: str = "",
        limit: int = 50,
    ) -> list[DeliveryRow]:
        """The newest messages in these states, newest first; with ``before`` those asked for
        earlier than that one."""

    async def resend(self, delivery_id: str) -> DeliveryRow:
        """Send a message again that is ``unknown``, ``rejected`` or ``dropped``; people may see an
        unknown one twice. Raises `CannotDo`."""

    async def drop(self, delivery_id: str) -> DeliveryRow:
        """Let go of a message that waits, is ``unknown`` or was ``rejected``. Raises `CannotDo`."""


class TurnLog(Protocol):
    """What an operator sees of what the bot did (`nekro_core.store.turn_log.TurnRowLog`)."""

    async def newest(
        self, *, chat_key: ChatKey | None = None, before: int = 0, limit: int = 50
    ) -> list[LoggedTurn]:
        """The newest turns, newest first, at most 500; with ``before`` those older than that
        one."""

    async def one(self, turn_id: int) -> tuple[LoggedTurn, list[Step], list[RunRecord]] | None:
        """A turn with its model replies and its runs, in order."""

    async def spent(self, *, since: float) -> Usage:
        """What all chats used together since then (seconds since 1970)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginShown:
    """One plugin, for the operator to look at. ``item`` is where it was found, ``state`` is
    ``loaded``, ``disabled`` or ``broken``; ``problems`` are whole sentences."""

    item: str
    state: str
    key: str = ""
    version: str = ""
    description: str = ""
    tools: Sequence[str] = ()
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginsShown:
    """All plugins. ``at_next_start`` says what a start of the bot will change: packages that run in
    another version than is installed by now."""

    plugins: Sequence[PluginShown]
    at_next_start: Sequence[str] = ()


class Host(Protocol):
    """The bot, as an adapter sees it."""

    data_dir: Path
    settings: Mapping[str, Any]
    """NoneBot's configuration, lower-case names."""
    media: MediaKeeper
    links: MediaLinker
    desk: ToolService
    outbox: OutboxActions
    turns: TurnLog
    pages: WebApplication
    """What plugins answer, to be mounted at ``/plugins`` behind a login: it asks nobody for one."""
    webhooks: WebApplication
    """Their webhooks, to be mounted at ``/api/webhook`` before any: each has its own secret."""

    async def accept(self, message: ChatMessage) -> None:
        """Take an inbound message. The order of calls for one chat is the order kept: it is stamped
        before the first await. Returns once the message is stored (or known as a duplicate).
        Raises `StoreUnavailable`: nothing was kept."""

    async def recall(self, chat_key: ChatKey, message_id: str) -> None:
        """The message was taken back on the platform: it leaves the prompt."""

    async def revise(
        self, chat_key: ChatKey, message_id: str, user_id: str, said: Segments
    ) -> None:
        """Its author changed on the platform the words of a message: from now on the prompt has
        these. What it answered and its media stay. Nothing happens where ``user_id`` is not who
        wrote it, or it is not known; nobody is woken. Raises `StoreUnavailable`."""

    async def instance_of(self, adapter: str, account: str) -> str:
        """The instance part of this account's chat keys; made at first sight, then never moves."""

    async def known_since(self, adapter: str, account: str) -> float | None:
        """When `instance_of` was first asked for this account, in seconds since 1970; nothing for
        one that is new. What was said since then, the bot should have heard."""

    async def account_of(self, instance: str) -> str | None:
        """The platform account bound to an instance."""

    def online(self) -> None:
        """An account can be reached, again or for the first time: what waits for one is sent now.
        Called once the account is bound to its instance."""

    async def stop(self, chat_key: ChatKey) -> bool:
        """Stop the chat's running turn. False where none runs."""

    def plugins(self) -> PluginsShown:
        """The plugins as they are now."""

    def working(self, chat_key: ChatKey) -> bool:
        """Whether a turn runs now."""

    def watch(
        self, chat_key: ChatKey | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[Activity]]:
        """Follow one chat, or all. A follower too slow for its queue is ended."""

    async def records(self, chat_key: ChatKey, *, after: int = 0, limit: int = 200) -> list[Record]:
        """History with ``seq > after``, oldest first; with ``after=0`` the newest ``limit``."""

    async def newest_times(self, instance: str) -> Mapping[ChatKey, float]:
        """For each chat of the instance, the time of the newest message heard, to fetch what was
        missed since."""

    async def chats(self, instance: str) -> list[ChatKey]:
        """Chats that are known, newest activity first."""

    async def runs(self, run_id: str) -> list[RunRecord]:
        """The code behind an answer: every run of the turn that this one belongs to, in order.
        Empty where there is none of that id."""

    async def read_upload(self, chat_key: ChatKey, path: str) -> bytes | None:
        """The bytes of this chat's medium by its `Media.path`; nothing where it is another's."""
