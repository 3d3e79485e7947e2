"""Connects one account for `AccountManager`, and tests its settings."""

import secrets
import ssl

import anyio
from nonebot.exception import WebSocketClosed
from pydantic import SecretStr
from websockets.exceptions import (
    InvalidHandshake,
    InvalidStatus,
    InvalidURI,
    WebSocketException,
)

from nekro_core.api.adapter import (
    AccountMonitor,
    ConnectionHint,
    ConnectionProblem,
    ConnectionTestFailed,
)

from .account_settings import OneBotAccount, hint_for
from .connection import OneBotConnection
from .gateway import ClientWire, OneBotGateway, connect_to

FIRST_EVENT_S = 10.0
"""Time limit of a test for the first event, in seconds. A OneBot implementation sends this event at
once."""


class OneBotConnector:
    """The `AccountConnector` of OneBot v11."""

    def __init__(self, gateway: OneBotGateway) -> None:
        self._gateway = gateway

    def key_of(self, settings: OneBotAccount) -> str:
        """Return the account's number. For a forward connection, return the address."""
        return settings.account if settings.connection == "reverse" else settings.address

    def complete(self, settings: OneBotAccount) -> OneBotAccount:
        """Make a token if the account has a reverse connection and no token."""
        if settings.connection == "forward" or settings.token:
            return settings
        made = SecretStr(secrets.token_urlsafe(24))
        return settings.model_copy(update={"access_token": made})

    async def run(self, settings: OneBotAccount, monitor: AccountMonitor) -> None:
        """Let the account connect, or connect to it, until cancelled."""
        if settings.connection == "reverse":
            await self._gateway.let_in(settings, monitor)
        else:
            await self._gateway.keep_connected(settings, monitor)

    async def test(self, settings: OneBotAccount) -> str:
        """Connect to the address and wait for the first event. For a reverse connection, check
        whether the account is connected. Raises `ConnectionTestFailed`."""
        if settings.connection == "reverse":
            if self._gateway.connection_of(settings.account) is not None:
                return f"account {settings.account} is connected"
            raise ConnectionTestFailed(
                ConnectionProblem.WAITS_FOR_PEER,
                "the OneBot program opens this connection, so there is nothing to test from here: "
                "add the account, enter the lines there, and wait until it is seen",
            )
        account = await _first_account(settings)
        if settings.account and account != settings.account:
            raise ConnectionTestFailed(
                ConnectionProblem.REFUSED,
                f"{settings.address} is account {account}, not {settings.account}",
            )
        return f"account {account} answers at {settings.address}"

    def hint(self, settings: OneBotAccount, address: str) -> ConnectionHint:
        """Return the lines for the OneBot implementation."""
        return hint_for(settings, address)


async def _first_account(settings: OneBotAccount) -> str:
    address = settings.address
    try:
        async with connect_to(address, settings.token) as websocket:
            connection = OneBotConnection(ClientWire(websocket), address)
            event = None
            with anyio.move_on_after(FIRST_EVENT_S):
                event = await connection.next_event()
    except ssl.SSLError as error:
        problem, words = ConnectionProblem.TLS, f"the encryption failed: {error}"
    except InvalidStatus as error:
        status = error.response.status_code
        refused = status in (401, 403)
        problem = ConnectionProblem.REFUSED if refused else ConnectionProblem.NOT_THE_PLATFORM
        what = "the access token is refused" if refused else "no OneBot WebSocket answers"
        words = f"{what} (HTTP {status})"
    except (TimeoutError, InvalidURI) as error:
        problem, words = ConnectionProblem.UNREACHABLE, f"no answer: {error}"
    except (InvalidHandshake, WebSocketException, WebSocketClosed) as error:
        problem, words = ConnectionProblem.NOT_THE_PLATFORM, f"no WebSocket answers: {error}"
    except (ConnectionResetError, ConnectionAbortedError, BrokenPipeError) as error:
        problem, words = ConnectionProblem.NOT_THE_PLATFORM, f"it closes the connection: {error}"
        if address.startswith("wss:"):
            problem, words = ConnectionProblem.TLS, "it speaks no TLS; use ws:// without encryption"
    except OSError as error:
        problem, words = ConnectionProblem.UNREACHABLE, f"it cannot be reached: {error}"
    else:
        if event is not None:
            return str(event.get("self_id") or "")
        if connection.refusal:
            problem = ConnectionProblem.REFUSED
            words = f"the access token is refused: {connection.refusal}"
        else:
            problem = ConnectionProblem.NOT_THE_PLATFORM
            words = (
                f"a WebSocket answers, but sends no OneBot event ({connection.lost or 'silent'})"
            )
    raise ConnectionTestFailed(problem, f"{address}: {words}")
