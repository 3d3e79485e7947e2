"""Wraps NoneBot's OneBot v11 adapter and manages its connections.

Differences from nonebot-adapter-onebot 2.4.6 (each has a regression test):

- It has no HTTP routes, because the HTTP routes of nonebot-adapter-onebot check no token. A
  WebSocket's token is checked before anything else.
- A second connection of an account replaces the first, which may be half-open.
- A frame that is not JSON does not end the connection.
- When a connection is lost, its calls that wait for an answer end.
- A forward connection accepts frames over 1 MiB.
- Events reach `OneBotIntake` in the order of arrival. NoneBot's matchers get them too, if the
  operator has loaded any.
"""

import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup
from loguru import logger
from nonebot.adapters import Bot as BaseBot
from nonebot.adapters.onebot.v11 import Adapter as StockAdapter
from nonebot.adapters.onebot.v11 import Bot
from nonebot.adapters.onebot.v11.config import Config
from nonebot.adapters.onebot.v11.exception import ActionFailed, ApiNotAvailable, NetworkError
from nonebot.drivers import URL, ASGIMixin, Driver, Request, WebSocket, WebSocketServerSetup
from nonebot.exception import WebSocketClosed
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidURI, WebSocketException

from nekro_core.api.adapter import MatcherDecision, dispatch_event, has_matchers

from .access import offers
from .connection import CallRefused, Json, NotConnected, OneBotConnection, OutcomeUnknown
from .intake import ArrivedEvent, OneBotIntake

PATHS = ("/onebot/v11/", "/onebot/v11/ws", "/onebot/v11/ws/")
FRAME_BYTES = 64 * 1024 * 1024
"""Maximum number of bytes of a frame that is accepted. 30 MiB of media are 40 MiB in base64."""
BACKLOG = 4096
"""Maximum number of events of one connection that wait to be processed. Beyond this number the
socket is not read until there is space, so the peer has to wait."""
START_S = 10.0
"""Maximum seconds that a connection waits for the bot to start. After that, the connection is
refused."""
RECONNECT_S = 3.0
ACCOUNT_LENGTH = 64


class ClientWire:
    """The `Wire` of a forward connection, which the bot opened."""

    def __init__(self, websocket: ClientConnection) -> None:
        self._websocket = websocket
        self.send = websocket.send
        self.close = websocket.close

    async def receive(self) -> str | bytes:
        """Return the next frame. Raises `WebSocketClosed` at the end."""
        try:
            return await self._websocket.recv()
        except ConnectionClosed as closed:
            received = closed.rcvd
            raise WebSocketClosed(
                received.code if received else 1006, received.reason if received else None
            ) from closed


class OneBotGateway(StockAdapter):
    """Accepts, opens and holds the connections. It must be made once, before the web server runs.
    `OneBotV11Adapter` calls `open` and `shut`."""

    def __init__(self, driver: Driver, config: Config, *, reconnect_s: float = RECONNECT_S) -> None:
        # The parent's constructor is not called: it uses the process-wide driver and adds the HTTP
        # routes.
        super(StockAdapter, self).__init__(driver)
        self.onebot_config = config
        self.accounts: set[str] = set()
        """All accounts that were connected since the start."""
        self._token = config.onebot_access_token or ""
        if not self._token:
            raise RuntimeError("no access token: without one anybody could send as any account")
        self._reconnect_s = reconnect_s
        self._connections: dict[str, OneBotConnection] = {}
        self._tasks: TaskGroup | None = None
        self._intake: OneBotIntake | None = None
        self._open = anyio.Event()
        if isinstance(driver, ASGIMixin):
            for path in PATHS:
                name = f"{self.get_name()} {path}"
                self.setup_websocket_server(WebSocketServerSetup(URL(path), name, self._handle_ws))

    def open(self, intake: OneBotIntake, tasks: TaskGroup) -> None:
        """Accept reverse connections, and open the forward connections, in ``tasks``."""
        self._intake, self._tasks = intake, tasks
        self._open.set()
        for url in self.onebot_config.onebot_ws_urls:
            tasks.start_soon(self._keep_connected, str(url))

    async def shut(self) -> None:
        """Close every connection and accept no more."""
        self._tasks = None
        async with anyio.create_task_group() as closing:
            for connection in list(self._connections.values()):
                closing.start_soon(connection.close, 1001, "the bot ends")

    async def call(
        self, account: str, action: str, params: Mapping[str, Any], *, seconds: float
    ) -> Any:
        """Call an action over the connection of ``account``. Raises `ActionError`."""
        connection = self._connections.get(account)
        if connection is None:
            raise NotConnected(f"account {account} is not connected")
        return await connection.call(action, params, seconds=seconds)

    def connection_of(self, account: str) -> OneBotConnection | None:
        """Return the account's connection; None if it is lost or there is none."""
        connection = self._connections.get(account)
        return None if connection is None or connection.lost else connection

    async def _handle_ws(self, websocket: WebSocket) -> None:
        """Handle a reverse connection, which the OneBot implementation opened."""
        account = str(websocket.request.headers.get("x-self-id") or "")
        refusal = self._refusal(websocket.request, account)
        if not refusal:
            with anyio.move_on_after(START_S):
                await self._open.wait()
            refusal = "" if self._tasks is not None else "the bot is not up"
        if refusal:
            logger.warning("OneBot v11: connection refused: {}", refusal)
            await websocket.close(1008, refusal)
            return
        await websocket.accept()
        reached = _reached_at(websocket.request)
        await self._listen(
            OneBotConnection(websocket, f"account {account}", account, reached_at=reached)
        )

    def _refusal(self, request: Request, account: str) -> str:
        if not offers(request, self._token):
            return "wrong or missing access token"
        if not account.isprintable() or not 0 < len(account) <= ACCOUNT_LENGTH:
            return f"X-Self-ID {account[:ACCOUNT_LENGTH]!r}: expected the account's number"
        role = str(request.headers.get("x-client-role") or "universal").lower()
        if role != "universal":
            return f"X-Client-Role {role!r}: only 'Universal' connections are taken"
        return ""

    async def _keep_connected(self, url: str) -> None:
        """Open a forward connection to the OneBot implementation, and a new one whenever the
        connection ends."""
        while True:
            try:
                async with self._connect(url) as websocket:
                    await self._listen(OneBotConnection(ClientWire(websocket), url))
            except InvalidURI as error:
                logger.error("ONEBOT_V11_WS_URLS: {}", error)
                return
            except (OSError, WebSocketException) as error:
                logger.warning("OneBot v11: {} cannot be reached: {}", url, error)
            await anyio.sleep(self._reconnect_s)

    def _connect(self, url: str) -> AbstractAsyncContextManager[ClientConnection]:
        # NoneBot's client refuses a frame of over 1 MiB, so a picture would end the connection.
        return connect(
            url,
            additional_headers={"Authorization": f"Bearer {self._token}"},
            max_size=FRAME_BYTES,
            compression=None,
            open_timeout=30,
            close_timeout=1,
        )

    async def _listen(self, connection: OneBotConnection) -> None:
        """Read a connection until it ends."""
        try:
            first = None
            if not connection.account:
                first = await connection.next_event()
                connection.account = str((first or {}).get("self_id") or "")
            if connection.account and self._admit(connection):
                await self._read_events(connection, first)
        finally:
            connection.lose("connection closed")
            with anyio.CancelScope(shield=True):
                await connection.close()

    async def _read_events(self, connection: OneBotConnection, event: Json | None) -> None:
        assert self._tasks is not None
        assert self._intake is not None
        bot = Bot(self, connection.account)
        self._register(bot)
        sender, receiver = anyio.create_memory_object_stream[ArrivedEvent](BACKLOG)
        self._tasks.start_soon(self._intake.take, connection, receiver)
        try:
            async with sender:
                event = event or await connection.next_event()
                while event is not None:
                    await sender.send((event, self._offer_to_matchers(bot, event)))
                    event = await connection.next_event()
        except anyio.BrokenResourceError:
            connection.lose("what it says can no longer be taken in")
        finally:
            logger.warning("OneBot v11: account {}: {}", connection.account, connection.lost)
            if self._connections.get(connection.account) is connection:
                del self._connections[connection.account]
            if self.bots.get(bot.self_id) is bot:
                self.bot_disconnect(bot)

    def _admit(self, connection: OneBotConnection) -> bool:
        """Register the connection for its account; False if it must be closed.

        A reverse connection replaces an older one, which is usually half-open. A forward connection
        does not: two connections would replace each other again and again.
        """
        account = connection.account
        older = self._connections.get(account)
        if older is not None and not older.lost:
            if connection.source != f"account {account}":
                logger.warning("{}: account {} is connected already", connection.source, account)
                return False
            logger.warning(
                "OneBot v11: a new connection of account {} replaces the old one. If this repeats, "
                "two programs are logged in to that account",
                account,
            )
            older.lose("replaced by a newer connection of the account")
        self._connections[account] = connection
        self.accounts.add(account)
        logger.info("OneBot v11: account {} is connected ({})", account, connection.source)
        return True

    def _register(self, bot: Bot) -> None:
        older = self.bots.get(bot.self_id)
        if older is not None:
            self.bot_disconnect(older)
        try:
            self.bot_connect(bot)
        except RuntimeError as error:  # another adapter's bot has the same number
            logger.warning("NoneBot's plugins will not see account {}: {}", bot.self_id, error)

    def _offer_to_matchers(self, bot: Bot, event: Json) -> MatcherDecision | None:
        """Give an event to NoneBot's matchers, if there are any."""
        if not has_matchers() or self._tasks is None:
            return None
        parsed = self.json_to_event(event)
        if parsed is None:
            return None
        decision = MatcherDecision()
        self._tasks.start_soon(dispatch_event, decision, partial(bot.handle_event, parsed))
        return decision

    async def _call_api(self, bot: BaseBot, api: str, **data: Any) -> Any:
        """Make a call for NoneBot's plugins, over the same connection. Raises NoneBot's errors."""
        seconds = float(data.pop("_timeout", None) or self.config.api_timeout or 30)
        try:
            return await self.call(bot.self_id, api, data, seconds=seconds)
        except NotConnected as error:
            raise ApiNotAvailable from error
        except CallRefused as error:
            raise ActionFailed(**error.answer) from error  # type: ignore[no-untyped-call]
        except OutcomeUnknown as error:
            raise NetworkError(str(error)) from error


def _reached_at(request: Request) -> str:
    """Return the address at which a peer reached the bot's web server; empty if the ``Host`` header
    is invalid. The peer may choose this address: it has sent the token, and links with this address
    are sent only to this peer."""
    host = str(request.headers.get("host") or "")
    if not re.fullmatch(r"[A-Za-z0-9._-]+(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?", host):
        return ""
    secure = request.url.scheme in ("wss", "https")
    secure = secure or request.headers.get("x-forwarded-proto") == "https"
    return f"{'https' if secure else 'http'}://{host}"
