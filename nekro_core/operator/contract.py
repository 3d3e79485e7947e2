"""Defines what an operator's page may show and do.

An adapter with such a page gets an `OperatorHost` in addition to its `Host`; see
`nekro_core.api.adapter.OperatorPageFactory`. Each attribute of `OperatorHost` has a separate
interface here, except ``pages`` and ``webhooks``, which are whole web applications. If a page needs
new data or a new action, add another interface.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from fastapi import APIRouter

from nekro_core.chat import ChatKey, DeliveryState, RunRecord
from nekro_core.delivery.activity import Activity
from nekro_core.delivery.outbound.admin import OPEN_STATES
from nekro_core.store import DeliveryRow, LoggedTurn, Step, Usage
from nekro_core.system.asgi import WebApplication
from nekro_core.tools.offer import OfferedTool, ToolAnswer


class ToolService(Protocol):
    """The bot's tools, for programs that the operator allows to call them."""

    async def tools(self, chat_key: ChatKey | None) -> tuple[OfferedTool, ...]:
        """List the tools that a chat has now.

        Args:
            chat_key: The chat; None for the tools that need no chat.

        Returns:
            The tools.
        """

    async def call(
        self, chat_key: ChatKey | None, name: str, arguments: Mapping[str, Any]
    ) -> ToolAnswer:
        """Call a tool. If this is cancelled, the tool's handler is cancelled too.

        Args:
            chat_key: The chat; None for a tool that needs no chat.
            name: The tool's name.
            arguments: The arguments by name.

        Returns:
            The answer of the tool. If the tool fails, the answer has the error.
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
            before: A delivery id: list only messages that were requested before this delivery.
                Empty for the newest.
            limit: The largest number of messages.

        Returns:
            The messages, newest first.
        """

    async def count(self, states: Collection[DeliveryState] = OPEN_STATES) -> int:
        """Count outgoing messages, at most 1,000.

        Args:
            states: The states to count.

        Returns:
            How many messages there are.
        """

    async def resend(self, delivery_id: str) -> DeliveryRow:
        """Send a message again that is ``unknown``, ``rejected`` or ``dropped``. People may see an
        ``unknown`` message twice.

        Args:
            delivery_id: The delivery's id.

        Returns:
            The delivery with its new state.

        Raises:
            CannotDo: The delivery is in another state, or there is no delivery of this id.
        """

    async def drop(self, delivery_id: str) -> DeliveryRow:
        """Drop a message that is ``pending``, ``unknown`` or ``rejected``. It is not sent any more,
        unless the operator calls `resend`.

        Args:
            delivery_id: The delivery's id.

        Returns:
            The delivery with its new state.

        Raises:
            CannotDo: The delivery is in another state, or there is no delivery of this id.
        """


class TurnLog(Protocol):
    """The log of the bot's turns (`nekro_core.store.turn_log.TurnLogRepository`)."""

    async def newest(
        self, *, chat_key: ChatKey | None = None, before: int = 0, limit: int = 50
    ) -> list[LoggedTurn]:
        """List the newest turns.

        Args:
            chat_key: One chat; None for all.
            before: A turn id: list only turns before this turn. 0 for the newest.
            limit: The largest number of turns, at most 500.

        Returns:
            The turns, newest first.
        """

    async def one(self, turn_id: int) -> tuple[LoggedTurn, list[Step], list[RunRecord]] | None:
        """Get a turn with its model replies and runs.

        Args:
            turn_id: The turn's id.

        Returns:
            The turn, its model replies and its runs, in order; None if there is no such turn.
        """

    async def spent(self, *, since: float) -> Usage:
        """Add up the turns, model replies, tokens and cost of all chats.

        Args:
            since: Only turns after this time count. In seconds since 1970.

        Returns:
            The sums.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginShown:
    """One plugin in the list that an operator sees.

    Attributes:
        item: Where the plugin was found: its folder and its name, such as ``builtin/chat``.
        state: ``loaded``, ``disabled`` or ``broken``.
        key: ``author.module_name``; empty if not known.
        version: The plugin's version.
        author: The author as the plugin writes it.
        description: The description that the plugin's author wrote.
        tools: The names of its tools.
        problems: The problems of the plugin, each as a whole sentence.
    """

    item: str
    state: str
    key: str = ""
    version: str = ""
    author: str = ""
    description: str = ""
    tools: Sequence[str] = ()
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginsShown:
    """The list of plugins that an operator sees.

    Attributes:
        plugins: All plugins.
        at_next_start: Packages of which a newer version was installed while the bot runs. The bot
            uses the newer version only after its next start.
    """

    plugins: Sequence[PluginShown]
    at_next_start: Sequence[str] = ()


class PluginList(Protocol):
    """The plugins of the bot (`nekro_core.app.operator_host.PluginOverview`)."""

    def shown(self) -> PluginsShown:
        """List the plugins with their present state.

        Returns:
            All plugins.
        """


class ActivityFeed(Protocol):
    """A live stream of the events in the chats (`nekro_core.delivery.activity.Broadcast`)."""

    def watch(
        self, chat_key: ChatKey | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[Activity]]:
        """Follow the events of one chat, or of all. If the caller reads so slowly that its queue is
        full, the iteration ends.

        Args:
            chat_key: The chat; None for all.

        Returns:
            A context whose value iterates over the events.
        """


class TurnControl(Protocol):
    """Controls the turns that run now (`nekro_core.agent.session.sessions.Sessions`)."""

    def working(self, chat_key: ChatKey) -> bool:
        """Return whether a turn of the chat runs now.

        Args:
            chat_key: The chat.

        Returns:
            True if a turn runs now.
        """

    async def stop(self, chat_key: ChatKey) -> bool:
        """Stop the chat's running turn.

        Args:
            chat_key: The chat.

        Returns:
            Whether a turn was running.
        """


class ChatList(Protocol):
    """The chats in the store (`nekro_core.store.people.ChatRepository`)."""

    async def of_instance(self, instance: str) -> list[ChatKey]:
        """List the chats of one account.

        Args:
            instance: The instance part of the chat keys.

        Returns:
            The chat keys. The chat with the newest activity is first.
        """


class RunLog(Protocol):
    """The code that the bot executed for its answers (`nekro_core.store.runs.RunRepository`)."""

    async def beside(self, run_id: str) -> list[RunRecord]:
        """Get a run and the other runs of its turn.

        Args:
            run_id: The id of a run.

        Returns:
            All runs of the same turn, in order; empty if there is no run of this id.
        """


class KeptMedia(Protocol):
    """The stored media of chats, which people or the bot have sent
    (`nekro_core.delivery.media.store.MediaStore`)."""

    async def read(self, chat_key: ChatKey, path: str) -> bytes | None:
        """Read the bytes of a medium.

        Args:
            chat_key: The chat.
            path: The `Media.path` of the medium.

        Returns:
            The bytes; None if the path is not a medium of this chat, or if it was deleted.
        """


class Site(Protocol):
    """The bot's web site, behind its login (`nekro_core.console.web_site.ConsoleSite`).

    Every request is checked before a route sees it: the host name, the origin and the login. The
    person who asks is ``request.state.actor``, an `Actor`.
    """

    def add_router(self, router: APIRouter, *, area: str) -> None:
        """Add routes. A person with any role may read (``GET`` and ``HEAD``). Other methods and
        websockets need the role of an operator. An API token needs a scope of the area.

        Args:
            router: The routes. Each path begins with `nekro_core.operator.http_routes.PAGE`
                (``/ui``) or ``API`` (``/api/v1``) of the same module.
            area: The area, as the scopes of API tokens name it, such as ``rooms``.

        Raises:
            ValueError: A path has another beginning, or the site already serves requests.
        """

    def add_page(self, add: Callable[[], None]) -> None:
        """Add pages that are made with NiceGUI. Each person who is logged in may open them.

        Args:
            add: A function that declares the pages with ``nicegui.ui.page``. Their addresses are
                relative: the site puts ``/ui`` before them. The site calls the function once, some
                seconds after the start or when the first browser opens a page. It runs in a thread,
                because importing NiceGUI takes long.

        Raises:
            ValueError: The site already serves requests.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorHost:
    """Everything of the bot that an operator's page can use.

    Attributes:
        tools: The bot's tools, for programs that the operator allows to call them.
        outbox: The outgoing messages.
        turns: The log of the bot's turns.
        runs: The code that the bot executed for its answers.
        plugins: The list of plugins.
        activity: The events in the chats.
        sessions: The turns that run now.
        chats: The chats in the store.
        media: The stored media of chats.
        pages: The pages of plugins. The console mounts them at ``/plugins`` behind its login,
            because they do not check a login themselves.
        webhooks: The webhooks of plugins. The console mounts them at ``/api/webhook`` without a
            login, because each webhook checks its own secret.
        site: The web site, to which an adapter adds its page behind the login.
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
    site: Site
