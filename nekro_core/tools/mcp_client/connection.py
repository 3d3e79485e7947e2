"""Connects to one MCP server, lists and calls its tools, and reconnects when the connection is
lost."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import mcp_types as types
from loguru import logger
from mcp import Client, MCPError

from nekro_core import __version__
from nekro_core.system.errors import NekroError
from nekro_core.tools.mcp_client.child import child_process
from nekro_core.tools.mcp_client.configuration import McpServerConfig
from nekro_core.tools.mcp_client.conversion import tools_of
from nekro_core.tools.mcp_client.remote import remote_server
from nekro_core.tools.mcp_client.results import outcome_of_result
from nekro_core.tools.mcp_client.settings import McpSettings
from nekro_core.tools.mcp_client.state import McpServerPhase, McpServerState
from nekro_core.tools.outcome import ToolFailure
from nekro_core.tools.tool import Tool

_LONGEST_RETRY = 60
"""The longest wait before a reconnect is this many times as long as the first wait."""
_MAX_PAGES = 50
_FLOOD_WINDOW_S = 10.0
_RELIST_S = 1.0
"""A server's tools are listed again only after this many seconds. Some servers change their tools
often."""
_MAX_REASON = 300


class McpConnectionLost(NekroError):
    """The connection ended, or the bot ended it because of the server's behaviour. The text says
    why."""


class McpConnection:
    """The connection to a server. It exists while `run` runs. ``offer`` is called with the server's
    tools each time that they were listed. ``tell`` is called with the server's state each time that
    it changes."""

    def __init__(
        self,
        server: McpServerConfig,
        module: str,
        settings: McpSettings,
        *,
        offer: Callable[[Sequence[Tool]], None],
        tell: Callable[[McpServerState], None],
    ) -> None:
        self._server = server
        self._module = module
        self._settings = settings
        self._offer = offer
        self._tell = tell
        self._client: Client | None = None
        self._reason = "it has not answered yet"
        self._told = self._reason
        self._legacy = True
        self._news = anyio.Event()
        self._ended = False
        self._changed = False
        self._flooded = False
        self._doubted = False
        self._calls = 0
        self._unasked: tuple[float, int] = (-math.inf, 0)

    async def run(self) -> None:
        """Connect, and reconnect after each loss, until cancelled. Raises no errors."""
        wait_s = self._settings.retry_s
        while True:
            began = anyio.current_time()
            self._say(McpServerPhase.CONNECTING)
            try:
                await self._live()
            except Exception as error:  # noqa: BLE001 - the server may cause any error
                self._reason = self._server.without_secrets(_reason(error))
                # The model may read only the bot's own texts. Texts of other errors may name
                # programs and folders of the host.
                ours = isinstance(_first_error(error), McpConnectionLost)
                self._told = self._reason if ours else "the operator finds why in the log"
            self._client = None
            if anyio.current_time() - began > self._settings.retry_s * _LONGEST_RETRY:
                # The connection has lasted for a while, so the first wait is short again.
                wait_s = self._settings.retry_s
            logger.warning(
                "MCP server {}: {}; the next attempt is in {:g} s",
                self._server.name, self._reason, wait_s,
            )  # fmt: skip
            self._say(McpServerPhase.WAITING)
            await anyio.sleep(wait_s)
            wait_s = min(wait_s * 2, self._settings.retry_s * _LONGEST_RETRY)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool. Raises `ToolFailure` if the call failed or its outcome is unknown."""
        client = self._client
        if client is None:
            raise ToolFailure(
                f"the MCP server {self._server.name!r} is not connected ({self._told}); "
                "the bot keeps trying to connect"
            )
        self._calls += 1
        try:
            result = await client.call_tool(name, dict(arguments))
        except MCPError as error:
            self._ping_soon()
            if error.code == types.CONNECTION_CLOSED:
                raise self._unknown() from None
            raise ToolFailure(self._server.without_secrets(str(error))[:_MAX_REASON]) from None
        except Exception as error:  # noqa: BLE001 - as in `run`
            told = self._server.without_secrets(_reason(error))
            logger.warning("MCP server {}: a call failed: {}", self._server.name, told)
            self._ping_soon()
            raise self._unknown() from None
        finally:
            self._calls -= 1
        if not isinstance(result, types.CallToolResult):
            raise ToolFailure("the server's answer is not the result of a call")
        return outcome_of_result(result, self._server)

    def _unknown(self) -> ToolFailure:
        return ToolFailure(
            f"the MCP server {self._server.name!r} did not answer: it is not known whether the "
            "call was carried out"
        )

    async def _live(self) -> None:
        """Connect, and wait until the connection ends. Raises the error that ended it; never
        returns."""
        self._news, self._ended = anyio.Event(), False
        self._changed = self._flooded = self._doubted = False
        limit_s = self._settings.connect_s
        with anyio.CancelScope(deadline=anyio.current_time() + limit_s) as scope:
            try:
                async with Client(
                    self._transport(),
                    mode="legacy" if self._legacy else "auto",
                    message_handler=self._heard,
                    client_info=types.Implementation(name="nekro-core", version=__version__),
                    cache=None,
                ) as client:
                    await self._list(client)
                    scope.deadline = math.inf
                    self._client = client
                    await self._watch(client)
            except MCPError:
                # If the handshake failed, the next attempt uses the other version of the protocol.
                # After a connection that was ready, the next attempt begins with the older version.
                self._legacy = self._client is not None or not self._legacy
                raise
            finally:
                self._client = None
        if scope.cancelled_caught:
            raise McpConnectionLost(f"it was not ready within {limit_s:g} s")

    def _transport(self) -> AbstractAsyncContextManager[Any]:
        max_bytes = self._settings.message_mb * 1024 * 1024
        if self._server.command:
            return child_process(self._server, max_bytes, self._end)
        limit_s = self._settings.connect_s
        return remote_server(self._server, connect_s=limit_s, max_bytes=max_bytes)

    async def _list(self, client: Client) -> None:
        """List the server's tools and pass them to ``offer``."""
        found: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None or len(found) > self._settings.most_tools:
                break
        most = self._settings.most_tools
        if len(found) > most or cursor is not None:
            logger.error(
                "MCP server {}: it has more than {} tools, only the first are used",
                self._server.name, most,
            )  # fmt: skip
        timeout_s = self._server.timeout_s or self._settings.call_s
        tools = tools_of(found[:most], self._server, self._module, self.call, timeout_s)
        self._offer(tools)
        self._say(McpServerPhase.READY, len(tools))
        logger.info("MCP server {}: {} tools", self._server.name, len(tools))

    async def _watch(self, client: Client) -> None:
        while True:
            with anyio.move_on_after(self._settings.ping_s):
                await self._news.wait()
            self._news = anyio.Event()
            if self._ended:
                raise McpConnectionLost("its process has ended")
            if self._flooded:
                raise McpConnectionLost(
                    f"it sent over {self._settings.unasked_messages} messages that nobody asked for"
                )
            if self._changed or not self._legacy:
                self._changed = False
                with anyio.fail_after(self._settings.connect_s):
                    await self._list(client)
                await anyio.sleep(_RELIST_S)
            elif self._doubted or not self._calls:
                self._doubted = False
                with anyio.fail_after(self._settings.ping_s):
                    ping = types.PingRequest(params=types.RequestParams())
                    await client.session.send_request(ping, types.EmptyResult)

    async def _heard(self, message: Any) -> None:
        now = anyio.current_time()
        since, count = self._unasked
        self._unasked = (since, count + 1) if now - since < _FLOOD_WINDOW_S else (now, 1)
        if not self._calls and self._unasked[1] > self._settings.unasked_messages:
            self._flooded = True
            self._news.set()
        if isinstance(message, types.ToolListChangedNotification):
            self._changed = True
            self._news.set()

    def _end(self) -> None:
        self._ended = True
        self._news.set()

    def _ping_soon(self) -> None:
        """Make `_watch` ping the server at once, to check that it still answers."""
        self._doubted = True
        self._news.set()

    def _say(self, phase: McpServerPhase, tools: int = 0) -> None:
        reason = "" if phase is McpServerPhase.READY else self._reason
        self._tell(McpServerState(self._server.name, phase, self._server.place, tools, reason))


def _first_error(error: BaseException) -> BaseException:
    """Get the first error of an exception group, at any depth."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _reason(error: BaseException) -> str:
    """Describe the error in one line."""
    match error := _first_error(error):
        case McpConnectionLost() | MCPError():
            text = str(error)
        case FileNotFoundError():
            text = f"there is no program {error.filename or ''}".rstrip()
        case TimeoutError():
            text = "it did not answer in time"
        case _:
            text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return " ".join(text.split())[:_MAX_REASON]
