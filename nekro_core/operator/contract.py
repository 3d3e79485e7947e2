"""Defines what an operator's page may show and do.

An adapter with such a page gets an `OperatorHost` beside its `Host`; see
`nekro_core.api.adapter.OperatorPageFactory`. Each part is a separate interface. If a page needs new
data or a new action, add another one.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from nekro_core.chat import ChatKey, DeliveryState, RunRecord
from nekro_core.delivery.activity import Activity
from nekro_core.delivery.outbound.admin import OPEN_STATES
from nekro_core.store import DeliveryRow, LoggedTurn, Step, Usage
from nekro_core.system.asgi import WebApplication
from nekro_core.tools.offer import OfferedTool, ToolAnswer


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
        """Call a tool. Cancelling this ends the running call.

        Args:
            chat_key: The chat; None for a tool that needs none.
            name: The tool's name.
            arguments: Its arguments by name.

        Returns:
            What it gave. What goes wrong with it is an answer too.
        """


class OutboxActions(Protocol):
    """Shows outgoing messages to the operator, and resends or drops them
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
    """What an operator sees of what the bot did (`nekro_core.store.turn_log.TurnLogRepository`)."""

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


class PluginList(Protocol):
    """The plugins of the bot (`nekro_core.app.operator_host.PluginOverview`)."""

    def shown(self) -> PluginsShown:
        """Show the plugins as they are now.

        Returns:
            All plugins.
        """


class ActivityFeed(Protocol):
    """What happens in the chats as it happens (`nekro_core.delivery.activity.Broadcast`)."""

    def watch(
        self, chat_key: ChatKey | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[Activity]]:
        """Follow one chat, or all. A follower too slow for its queue is ended.

        Args:
            chat_key: The chat; None for all.

        Returns:
            A context whose value iterates over what happens.
        """


class TurnControl(Protocol):
    """The turns that run now (`nekro_core.agent.session.sessions.Sessions`)."""

    def working(self, chat_key: ChatKey) -> bool:
        """Tell whether a turn of the chat runs now.

        Args:
            chat_key: The chat.

        Returns:
            True while one runs.
        """

    async def stop(self, chat_key: ChatKey) -> bool:
        """Stop the chat's running turn.

        Args:
            chat_key: The chat.

        Returns:
            False where none runs.
        """


class ChatList(Protocol):
    """The chats that are known (`nekro_core.store.people.ChatRepository`)."""

    async def of_instance(self, instance: str) -> list[ChatKey]:
        """List the chats of one account.

        Args:
            instance: The instance part of chat keys.

        Returns:
            Their keys, newest activity first.
        """


class RunLog(Protocol):
    """The code behind answers (`nekro_core.store.runs.RunRepository`)."""

    async def beside(self, run_id: str) -> list[RunRecord]:
        """Get a run and the others of its turn.

        Args:
            run_id: The id of a run.

        Returns:
            Every run of the turn that this one belongs to, in order; empty where there is none of
            that id.
        """


class KeptMedia(Protocol):
    """The media that chats received and got (`nekro_core.delivery.media.store.MediaStore`)."""

    async def read(self, chat_key: ChatKey, path: str) -> bytes | None:
        """Read a medium of a chat.

        Args:
            chat_key: The chat.
            path: The `Media.path` of the medium.

        Returns:
            Its bytes; None where it is another chat's, no medium, or deleted.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorHost:
    """The bot, as an operator's page sees it.

    Attributes:
        tools: The bot's tools, for programs that the operator lets in.
        outbox: The messages that go out.
        turns: What the bot did.
        runs: The code behind answers.
        plugins: The plugins.
        activity: What happens in the chats.
        sessions: The turns that run now.
        chats: The chats that are known.
        media: Media of the chats.
        pages: The plugins' pages, to be mounted at ``/plugins`` behind a login: they do not check
            one themselves.
        webhooks: Their webhooks, to be mounted at ``/api/webhook`` before any login: each has its
            own secret.
    """

    tools: ToolService
    outbox: OutboxActions
    turns: TurnLog
    runs: RunLog
    plugins: PluginList
    activity: ActivityFeed
    sessions: TurnControl
    chats: ChatList
    media: KeptMedia
    pages: WebApplication
    webhooks: WebApplication
