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
    """A line was added to a chat's history, or one changed (recalled, delivery decided).

    Attributes:
        record: The line as it is now.
    """

    record: Record


@dataclass(frozen=True, slots=True)
class Working:
    """A turn of the chat began (true) or ended (false).

    Attributes:
        chat_key: The chat.
        busy: True for a turn's beginning, False for its end.
    """

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
        """Store bytes that are already here.

        Args:
            chat_key: The chat that received them.
            data: The bytes.
            name: What people see.
            expect: What it must turn out to be; empty for what its name claims.

        Returns:
            The kept medium, or one with a ``problem``.
        """

    async def keep_url(
        self, chat_key: ChatKey, url: str, *, name: str = "", expect: Expected = ""
    ) -> Media:
        """Fetch an address and store what is there.

        Args:
            chat_key: The chat that received it.
            url: ``http(s)``, ``data:`` or ``base64://``.
            name: What people see.
            expect: As for `keep_bytes`.

        Returns:
            The kept medium, or one with a ``problem``.
        """


class MediaLinker(Protocol):
    """Makes links to kept media: signed, short-lived, answered by the bot's own web server."""

    def link(self, chat_key: ChatKey, media: Media, *, address: str = "") -> str:
        """Make a link to a medium of the chat.

        Args:
            chat_key: The chat that the medium belongs to.
            media: A medium that the bot keeps.
            address: How whoever gets it reaches the bot's web server (``http://10.0.0.5:8080``);
                empty for the operator's setting.

        Returns:
            The link; empty where there is no address, or the medium is none that we keep.
        """


class ToolService(Protocol):
    """The bot's tools for programs that the operator lets in."""

    async def tools(self, chat_key: ChatKey | None) -> tuple[OfferedTool, ...]:
        """List the tools that a chat has now.

        Args:
            chat_key: The chat; None for the tools that need none.

        Returns:
            The tools.
        """

    async def call(
        self, chat_key: ChatKey | None, name: str, arguments: Mapping[str, Any]
    ) -> ToolAnswer:
        """Carry out a call. Cancelled, it ends what runs.

        Args:
            chat_key: The chat; None for a tool that needs none.
            name: The tool's name.
            arguments: Its arguments by name.

        Returns:
            What it gave. What goes wrong with it is an answer too.
        """


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
        """List the newest outgoing messages.

        Args:
            states: The states to list.
            chat_key: One chat; None for all.
            before: A delivery id: only what was asked for earlier than that one. Empty for the
                newest.
            limit: How many at most.

        Returns:
            The messages, newest first.
        """

    async def resend(self, delivery_id: str) -> DeliveryRow:
        """Send a message again that is ``unknown``, ``rejected`` or ``dropped``. People may see an
        unknown one twice.

        Args:
            delivery_id: The delivery's id.

        Returns:
            The delivery as it is then.

        Raises:
            CannotDo: It is in another state, or there is none of that id.
        """

    async def drop(self, delivery_id: str) -> DeliveryRow:
        """Let go of a message that waits, is ``unknown`` or was ``rejected``.

        Args:
            delivery_id: The delivery's id.

        Returns:
            The delivery as it is then.

        Raises:
            CannotDo: It is in another state, or there is none of that id.
        """


class TurnLog(Protocol):
    """What an operator sees of what the bot did (`nekro_core.store.turn_log.TurnRowLog`)."""

    async def newest(
        self, *, chat_key: ChatKey | None = None, before: int = 0, limit: int = 50
    ) -> list[LoggedTurn]:
        """List the newest turns.

        Args:
            chat_key: One chat; None for all.
            before: A turn id: only turns older than that one. 0 for the newest.
            limit: How many, at most 500.

        Returns:
            The turns, newest first.
        """

    async def one(self, turn_id: int) -> tuple[LoggedTurn, list[Step], list[RunRecord]] | None:
        """Get a turn with all that was done in it.

        Args:
            turn_id: The turn's id.

        Returns:
            The turn, its model replies and its runs, in order; None where there is no such turn.
        """

    async def spent(self, *, since: float) -> Usage:
        """Add up what all chats used.

        Args:
            since: From when on, in seconds since 1970.

        Returns:
            The sums.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginShown:
    """One plugin, for the operator to look at.

    Attributes:
        item: Where it was found.
        state: ``loaded``, ``disabled`` or ``broken``.
        key: ``author.module_name``; empty where not known.
        version: The plugin's own version.
        description: What its author says of it.
        tools: The names of its tools.
        problems: What is wrong with it, in whole sentences.
    """

    item: str
    state: str
    key: str = ""
    version: str = ""
    description: str = ""
    tools: Sequence[str] = ()
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginsShown:
    """All plugins.

    Attributes:
        plugins: Each of them.
        at_next_start: What a start of the bot will change: packages that run in another version
            than is installed by now.
    """

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
        """Take an inbound message. Returns once it is stored, or known as a duplicate.

        The order of calls for one chat is the order kept: a message is stamped before the first
        await.

        Args:
            message: The message.

        Raises:
            StoreUnavailable: Nothing was kept.
        """

    async def recall(self, chat_key: ChatKey, message_id: str) -> None:
        """Record that a message was taken back on the platform: it leaves the prompt.

        Args:
            chat_key: The chat.
            message_id: The platform's id of the message.
        """

    async def revise(
        self, chat_key: ChatKey, message_id: str, user_id: str, said: Segments
    ) -> None:
        """Record that its author changed a message: from now on the prompt has the new words.

        What it answered and its media stay, and nobody is woken. Nothing happens where the message
        is not known, or is another person's.

        Args:
            chat_key: The chat.
            message_id: The platform's id of the message.
            user_id: The platform's id of who changed it.
            said: The new words.

        Raises:
            StoreUnavailable: Nothing was kept.
        """

    async def instance_of(self, adapter: str, account: str) -> str:
        """Get the instance part of an account's chat keys; made at first sight, then never moves.

        Args:
            adapter: The adapter's name.
            account: The platform's id of our account.

        Returns:
            The instance.
        """

    async def known_since(self, adapter: str, account: str) -> float | None:
        """Tell when `instance_of` was first asked for an account. What was said since then, the bot
        should have heard.

        Args:
            adapter: The adapter's name.
            account: The platform's id of our account.

        Returns:
            Seconds since 1970; None for a new account.
        """

    async def account_of(self, instance: str) -> str | None:
        """Get the platform account that is bound to an instance.

        Args:
            instance: The instance part of a chat key.

        Returns:
            The platform's id; None where none is bound.
        """

    def online(self) -> None:
        """An account can be reached, again or for the first time: what waits for one is sent now.
        Called once the account is bound to its instance."""

    async def stop(self, chat_key: ChatKey) -> bool:
        """Stop the chat's running turn.

        Args:
            chat_key: The chat.

        Returns:
            False where none runs.
        """

    def plugins(self) -> PluginsShown:
        """Show the plugins as they are now.

        Returns:
            All plugins.
        """

    def working(self, chat_key: ChatKey) -> bool:
        """Tell whether a turn runs now.

        Args:
            chat_key: The chat.

        Returns:
            True while one runs.
        """

    def watch(
        self, chat_key: ChatKey | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[Activity]]:
        """Follow one chat, or all. A follower too slow for its queue is ended.

        Args:
            chat_key: The chat; None for all.

        Returns:
            A context whose value iterates over what happens.
        """

    async def records(self, chat_key: ChatKey, *, after: int = 0, limit: int = 200) -> list[Record]:
        """Get lines of a chat's history.

        Args:
            chat_key: The chat.
            after: Only lines whose ``seq`` is greater; 0 for the newest ``limit`` lines.
            limit: How many at most.

        Returns:
            The lines, oldest first.
        """

    async def newest_times(self, instance: str) -> Mapping[ChatKey, float]:
        """Tell when each chat was last heard, to fetch what was missed since.

        Args:
            instance: The instance part of chat keys.

        Returns:
            For each chat the time of its newest message, in seconds since 1970.
        """

    async def chats(self, instance: str) -> list[ChatKey]:
        """List the chats that are known.

        Args:
            instance: The instance part of chat keys.

        Returns:
            Their keys, newest activity first.
        """

    async def runs(self, run_id: str) -> list[RunRecord]:
        """Get the code behind an answer.

        Args:
            run_id: The id of a run.

        Returns:
            Every run of the turn that this one belongs to, in order; empty where there is none of
            that id.
        """

    async def read_upload(self, chat_key: ChatKey, path: str) -> bytes | None:
        """Read a medium of a chat.

        Args:
            chat_key: The chat.
            path: The `Media.path` of the medium.

        Returns:
            Its bytes; None where it is another chat's.
        """
