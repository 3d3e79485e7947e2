"""Wraps NoneBot's OneBot v11 adapter and manages its connections. The bot opens a *forward*
connection; the OneBot implementation, such as NapCat, opens a *reverse* connection.

Differences from nonebot-adapter-onebot 2.4.6 (each has a regression test):

- It has no HTTP routes, because the HTTP routes of nonebot-adapter-onebot check no token. A
  WebSocket's token is checked before anything else.
- A new reverse connection of an account replaces the earlier connection, which may be half-open.
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
from pydantic import SecretStr
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidStatus,
    InvalidURI,
    WebSocketException,
)

from nekro_core.api.adapter import (
    AccountManager,
    AccountMonitor,
    AccountState,
    MatcherDecision,
    dispatch_event,
    has_matchers,
)

from .access import offers
from .account_settings import ADDRESSES, SHARED_TOKEN, OneBotAccount
from .connection import CallRefused, Json, NotConnected, OneBotConnection, OutcomeUnknown
from .intake import ArrivedEvent, OneBotIntake
from .paths import PATHS

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


def connect_to(url: str, token: str) -> AbstractAsyncContextManager[ClientConnection]:
    """Open a forward connection. Raises `InvalidURI`, `InvalidHandshake` and `OSError`."""
    # NoneBot's client refuses a frame of over 1 MiB, so a picture would end the connection.
    return connect(
        url,
        additional_headers={"Authorization": f"Bearer {token}"},
        max_size=FRAME_BYTES,
        compression=None,
        open_timeout=30,
        close_timeout=1,
    )


class OneBotGateway(StockAdapter):
    """Accepts, opens and holds the connections. It must be made once, before the web server runs.
    `OneBotV11Adapter` calls `open` and `shut`."""

    def __init__(self, driver: Driver, config: Config, *, reconnect_s: float = RECONNECT_S) -> None:
        # The constructor of the base class is not called: it uses the process-wide driver and adds
        # the HTTP routes.
        super(StockAdapter, self).__init__(driver)
        self.onebot_config = config
        self.accounts: set[str] = set()
        """All accounts that were connected since the start."""
        self._token = config.onebot_access_token or ""
        if not self._token:
            raise RuntimeError("no access token: without one anybody could send as any account")
        self._reconnect_s = reconnect_s
        self._connections: dict[str, OneBotConnection] = {}
        self._monitors: dict[str, AccountMonitor] = {}
        """The monitors of the accounts that may open a reverse connection."""
        self._tasks: TaskGroup | None = None
        self._intake: OneBotIntake | None = None
        self._manager: AccountManager[OneBotAccount] | None = None
        self._open = anyio.Event()
        if isinstance(driver, ASGIMixin):
            for path in PATHS:
                name = f"{self.get_name()} {path}"
                self.setup_websocket_server(WebSocketServerSetup(URL(path), name, self._handle_ws))

    def manage(self, manager: AccountManager[OneBotAccount]) -> None:
        """Take the accounts and their tokens from ``manager``."""
        self._manager = manager

    def open(self, intake: OneBotIntake, tasks: TaskGroup) -> None:
        """Start the accounts in ``tasks``, and accept reverse connections."""
        assert self._manager is not None
        self._intake, self._tasks = intake, tasks
        self._manager.open(tasks)
        self._open.set()

    def forward_accounts(self) -> list[tuple[OneBotAccount, str]]:
        """Return the forward connections in the settings, each with the name of its setting."""
        token = SecretStr(self._token)
        found = []
        for url in map(str, self.onebot_config.onebot_ws_urls):
            try:
                made = OneBotAccount(connection="forward", address=url, access_token=token)
            except ValueError as error:
                logger.error("{}: {!r} is left out: {}", ADDRESSES, url, error)
            else:
                found.append((made, ADDRESSES))
        return found

    def settings_of(self, account: str) -> OneBotAccount:
        """Return the settings of an account that connects with the shared token."""
        return OneBotAccount(account=account, access_token=SecretStr(self._token))

    async def let_in(self, settings: OneBotAccount, monitor: AccountMonitor) -> None:
        """Accept reverse connections of an account until cancelled. Then close its connection."""
        account = settings.account
        self._monitors[account] = monitor
        try:
            await anyio.sleep_forever()
        finally:
            if self._monitors.get(account) is monitor:
                del self._monitors[account]
            connection = self._connections.get(account)
            if connection is not None and connection.monitor is monitor:
                with anyio.CancelScope(shield=True):
                    await connection.close(1001, "the account is stopped")

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
        monitor = None if refusal else await self._monitor_of(account)
        if monitor is None:
            # A paused account tries to connect every few seconds. This is not a reason for a
            # warning.
            level = "WARNING" if refusal else "DEBUG"
            refusal = refusal or "the operator has paused the account"
            logger.log(level, "OneBot v11: connection refused: {}", refusal)
            if account in self._monitors:
                self._monitors[account].problem(f"a connection was refused: {refusal}")
            await websocket.close(1008, refusal)
            return
        await websocket.accept()
        reached = _reached_at(websocket.request)
        await self._listen(
            OneBotConnection(
                websocket, f"account {account}", account, reached_at=reached, monitor=monitor
            ),
            monitor,
        )

    async def _monitor_of(self, account: str) -> AccountMonitor | None:
        """Return the monitor of an account that has offered its token; None if the account is
        paused. An unknown account becomes known, because it has the shared token."""
        if account not in self._monitors and self._manager is not None:
            await self._manager.found(self.settings_of(account), SHARED_TOKEN)
        return self._monitors.get(account)

    def _refusal(self, request: Request, account: str) -> str:
        known = self._manager.known(account) if self._manager is not None else None
        own = known is not None and known.connection == "reverse"
        if not offers(request, known.token if known is not None and own else self._token):
            return "wrong or missing access token"
        if not account.isprintable() or not 0 < len(account) <= ACCOUNT_LENGTH:
            return f"X-Self-ID {account[:ACCOUNT_LENGTH]!r}: expected the account's number"
        role = str(request.headers.get("x-client-role") or "universal").lower()
        if role != "universal":
            return f"X-Client-Role {role!r}: only 'Universal' connections are taken"
        return ""

    async def keep_connected(self, settings: OneBotAccount, monitor: AccountMonitor) -> None:
        """Open a forward connection to the OneBot implementation, and a new one whenever the
        connection ends, until cancelled. Returns if the address is invalid."""
        url = settings.address
        while True:
            try:
                async with connect_to(url, settings.token) as websocket:
                    connection = OneBotConnection(ClientWire(websocket), url, monitor=monitor)
                    await self._listen(connection, monitor, settings.account)
            except InvalidURI as error:
                logger.error("{}: {}", ADDRESSES, error)
                monitor.failed(f"the address cannot be used: {error}")
                return
            except InvalidStatus as error:
                status = error.response.status_code
                logger.warning("OneBot v11: {} answers with HTTP {}", url, status)
                if status in (401, 403):
                    monitor.failed(f"{url} refuses the access token (HTTP {status})")
                else:
                    monitor.offline(f"{url} answers with HTTP {status}, not as a WebSocket")
            except (OSError, WebSocketException) as error:
                logger.warning("OneBot v11: {} cannot be reached: {}", url, error)
                monitor.offline(f"{url} cannot be reached: {error}")
            await anyio.sleep(self._reconnect_s)

    async def _listen(
        self, connection: OneBotConnection, monitor: AccountMonitor, expected: str = ""
    ) -> None:
        """Read a connection until it ends. ``expected`` is the only account that a forward
        connection may have. If it is empty, any account is accepted."""
        try:
            first = None
            if not connection.account:
                first = await connection.next_event()
                connection.account = str((first or {}).get("self_id") or "")
                if connection.refusal:
                    monitor.failed(f"the access token is refused: {connection.refusal}")
                elif first is None:
                    monitor.offline(connection.lost)
            if expected and connection.account not in ("", expected):
                monitor.failed(f"this is account {connection.account}, not {expected}")
                return
            if connection.account and self._admit(connection):
                monitor.online(connection.account)
                try:
                    await self._read_events(connection, monitor, first)
                finally:
                    if monitor.state is AccountState.ONLINE and not self._is_replaced(connection):
                        monitor.offline(connection.lost)
        finally:
            connection.lose("connection closed")
            with anyio.CancelScope(shield=True):
                await connection.close()

    def _is_replaced(self, connection: OneBotConnection) -> bool:
        newer = self._connections.get(connection.account)
        return newer is not None and newer is not connection

    async def _read_events(
        self, connection: OneBotConnection, monitor: AccountMonitor, event: Json | None
    ) -> None:
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
                    if event.get("post_type") != "meta_event":
                        monitor.event()
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
        """Register the connection for its account. Return False if the connection must be closed.

        A reverse connection replaces an older one, which is usually half-open. A forward connection
        does not: two connections would replace each other again and again.
        """
        account = connection.account
        older = self._connections.get(account)
        if older is not None and not older.lost:
            if connection.source != f"account {account}":
                logger.warning("{}: account {} is connected already", connection.source, account)
                if connection.monitor is not None:
                    connection.monitor.problem(f"account {account} is connected already")
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
        except RuntimeError as error:  # raised if another adapter's bot has this number
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
    is invalid. The peer may choose this address, because it has sent the token, and links with this
    address are sent only to this peer."""
    host = str(request.headers.get("host") or "")
    if not re.fullmatch(r"[A-Za-z0-9._-]+(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?", host):
        return ""
    secure = request.url.scheme in ("wss", "https")
    secure = secure or request.headers.get("x-forwarded-proto") == "https"
    return f"{'https' if secure else 'http'}://{host}"
