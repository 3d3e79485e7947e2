"""Defines the settings of accounts on several platforms, and checks them."""

import base64
import binascii
import json
import ssl
from typing import Any
from urllib.parse import urlsplit

import anyio
from pydantic import Field, SecretStr, field_validator
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from nekro_core.api.adapter import ConnectionProblem, ConnectionTestFailed

from ..account_kind import AccountKind, UnisegAccount, ask, refused

_READY_S = 10.0
"""Time limit in seconds for connecting to a Satori server, and for its answer to the login. Servers
answer within milliseconds; a program that is no Satori server may keep the connection open and
never answer."""


def _name_in(part: str) -> str:
    """Return the account's number in a part of a token; empty if there is none."""
    try:
        number = base64.b64decode(part + "=" * (-len(part) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
    return number if number.isdecimal() else ""


class TelegramAccount(UnisegAccount):
    """A Telegram bot."""

    token: SecretStr = Field(
        title="Token", description="As @BotFather writes it, such as 123456:ABC-DEF."
    )
    api_server: str = Field(
        default="https://api.telegram.org/",
        title="Bot API server",
        description="Leave it unless you run a server of your own.",
    )

    @field_validator("token")
    @classmethod
    def _token(cls, token: SecretStr) -> SecretStr:
        number, colon, rest = token.get_secret_value().strip().partition(":")
        if not (number.isdecimal() and colon and rest) or any(map(str.isspace, rest)):
            raise ValueError("expected a token such as 123456:ABC-DEF, as @BotFather writes it")
        return SecretStr(f"{number}:{rest}")

    @field_validator("api_server")
    @classmethod
    def _server(cls, address: str) -> str:
        if urlsplit(address).scheme not in ("http", "https"):
            raise ValueError("expected an address such as https://api.telegram.org/")
        return address if address.endswith("/") else f"{address}/"

    @property
    def key(self) -> str:
        """The bot's number."""
        return self.token.get_secret_value().partition(":")[0]

    def entry(self) -> dict[str, Any]:
        """See `UnisegAccount.entry`."""
        return {"token": self.token.get_secret_value(), "api_server": self.api_server}


async def _check_telegram(account: TelegramAccount, proxy: str | None) -> str:
    status, answer = await ask(
        "GET", f"{account.api_server}bot{account.token.get_secret_value()}/getMe", proxy=proxy
    )
    if not answer.get("ok"):
        raise refused(f"Telegram refuses the token: {answer.get('description') or status}")
    return f"this is @{answer.get('result', {}).get('username')}"


class DiscordAccount(UnisegAccount):
    """A Discord bot."""

    token: SecretStr = Field(
        title="Token", description="The bot's token, from the page Bot of the application."
    )
    message_content: bool = Field(
        default=True,
        title="Message content",
        description="Whether the bot reads messages that do not mention it. The application must "
        "have the Message Content Intent.",
    )

    @field_validator("token")
    @classmethod
    def _token(cls, token: SecretStr) -> SecretStr:
        text = token.get_secret_value().strip()
        if not _name_in(text.partition(".")[0]):
            raise ValueError("expected a bot token: three parts with dots between them")
        return SecretStr(text)

    @property
    def key(self) -> str:
        """The bot's number."""
        return _name_in(self.token.get_secret_value().partition(".")[0])

    def entry(self) -> dict[str, Any]:
        """See `UnisegAccount.entry`."""
        return {
            "token": self.token.get_secret_value(),
            "intent": {"message_content": self.message_content},
        }


async def _check_discord(account: DiscordAccount, proxy: str | None) -> str:
    status, answer = await ask(
        "GET",
        "https://discord.com/api/v10/users/@me",
        headers={"Authorization": f"Bot {account.token.get_secret_value()}"},
        proxy=proxy,
    )
    if "id" not in answer:
        raise refused(f"Discord refuses the token: {answer.get('message') or status}")
    return f"this is {answer.get('username')}"


class KookAccount(UnisegAccount):
    """A KOOK bot."""

    token: SecretStr = Field(
        title="Token", description="The bot's token, from KOOK's developer centre."
    )

    @field_validator("token")
    @classmethod
    def _token(cls, token: SecretStr) -> SecretStr:
        parts = token.get_secret_value().strip().split("/")
        if len(parts) != 3 or not _name_in(parts[1]):
            raise ValueError("expected a token of three parts, such as 1/MTIzNDU=/abc==")
        return SecretStr("/".join(parts))

    @property
    def key(self) -> str:
        """The application's number."""
        return _name_in(self.token.get_secret_value().split("/")[1])

    def entry(self) -> dict[str, Any]:
        """See `UnisegAccount.entry`."""
        return {"token": self.token.get_secret_value()}


async def _check_kook(account: KookAccount, proxy: str | None) -> str:
    _, answer = await ask(
        "GET",
        "https://www.kookapp.cn/api/v3/user/me",
        headers={"Authorization": f"Bot {account.token.get_secret_value()}"},
        proxy=proxy,
    )
    if answer.get("code") != 0:
        raise refused(f"KOOK refuses the token: {answer.get('message')}")
    return f"this is {answer.get('data', {}).get('username')}"


class SatoriAccount(UnisegAccount):
    """A Satori server, which may have several accounts."""

    host: str = Field(
        default="127.0.0.1",
        title="Host",
        description="Where the Satori server listens.",
        min_length=1,
    )
    port: int = Field(
        ge=1, le=65535, title="Port", description="The port of the Satori server, often 5140."
    )
    path: str = Field(
        default="", title="Path", description="The path of the Satori server; usually empty."
    )
    token: SecretStr = Field(
        default=SecretStr(""), title="Token", description="The token of the Satori server, if any."
    )
    secure: bool = Field(
        default=False, title="Encryption", description="Whether the server speaks HTTPS."
    )

    @property
    def key(self) -> str:
        """The server's address."""
        return f"{self.host}:{self.port}{self.path}"

    def entry(self) -> dict[str, Any]:
        """See `UnisegAccount.entry`."""
        token = self.token.get_secret_value()
        return {**self.model_dump(exclude={"token"}), "token": token or None}


async def _check_satori(account: SatoriAccount, proxy: str | None) -> str:
    """Log in over the WebSocket, because some servers check no token in HTTP calls."""
    scheme = "wss" if account.secure else "ws"
    path = f"/{account.path.strip('/')}" if account.path.strip("/") else ""
    place = f"{scheme}://{account.host}:{account.port}{path}/v1/events"
    token = account.token.get_secret_value()
    try:
        async with connect(place, proxy=proxy, open_timeout=_READY_S, close_timeout=1) as websocket:
            await websocket.send(json.dumps({"op": 3, "body": {"token": token or None}}))
            with anyio.fail_after(_READY_S):
                ready = json.loads(await websocket.recv())
        logins = ready["body"]["logins"] if ready["op"] == 4 else None
    except ConnectionClosed as error:
        raise refused(f"{place} refuses the login: {error}; is the token right?") from None
    except ssl.SSLError as error:
        problem, words = ConnectionProblem.TLS, f"the encryption failed: {error}"
    except (WebSocketException, ValueError, LookupError, TypeError) as error:
        problem, words = ConnectionProblem.NOT_THE_PLATFORM, f"no Satori server: {error!r}"
    except TimeoutError:
        problem = ConnectionProblem.UNREACHABLE
        words = f"it did not answer the login within {_READY_S:g} s"
    except OSError as error:
        problem, words = ConnectionProblem.UNREACHABLE, f"it cannot be reached: {error}"
    else:
        if logins is None:
            raise refused(f"{place} refuses the login; is the token right?")
        return f"the Satori server has {len(logins)} accounts"
    raise ConnectionTestFailed(problem, f"{place}: {words}")


class MilkyAccount(UnisegAccount):
    """A Milky server."""

    host: str = Field(
        default="127.0.0.1",
        title="Host",
        description="Where the Milky server listens.",
        min_length=1,
    )
    port: int = Field(ge=1, le=65535, title="Port", description="The port of the Milky server.")
    access_token: SecretStr = Field(
        default=SecretStr(""),
        title="Access token",
        description="The access token of the Milky server, if any.",
    )
    secure: bool = Field(
        default=False, title="Encryption", description="Whether the server speaks HTTPS."
    )

    @property
    def key(self) -> str:
        """The server's address."""
        return f"{self.host}:{self.port}"

    def entry(self) -> dict[str, Any]:
        """See `UnisegAccount.entry`."""
        token = self.access_token.get_secret_value()
        return {**self.model_dump(exclude={"access_token"}), "access_token": token or None}


async def _check_milky(account: MilkyAccount, proxy: str | None) -> str:
    scheme = "https" if account.secure else "http"
    status, answer = await ask(
        "POST",
        f"{scheme}://{account.host}:{account.port}/api/get_login_info",
        headers={"Authorization": f"Bearer {account.access_token.get_secret_value()}"},
        body={},
        proxy=proxy,
    )
    if answer.get("status") != "ok":
        raise refused(f"the Milky server refuses: {answer.get('message') or status}")
    return f"this is account {answer.get('data', {}).get('uin')}"


TELEGRAM = AccountKind(
    model=TelegramAccount,
    setting="telegram_bots",
    proxy="telegram_proxy",
    reports=True,
    check=_check_telegram,
    hint="Write to the bot in Telegram, or add it to a group. In groups it reads only commands, "
    "replies and mentions unless @BotFather's /setprivacy is off or it is an administrator.",
)
DISCORD = AccountKind(
    model=DiscordAccount,
    setting="discord_bots",
    proxy="discord_proxy",
    check=_check_discord,
    hint="In Discord's developer portal, switch the Message Content Intent on (page Bot), and "
    "invite the bot to a server with an address from the page OAuth2 (scope bot).",
)
KOOK = AccountKind(
    model=KookAccount,
    setting="kaiheila_bots",
    check=_check_kook,
    hint="In KOOK's developer centre, choose the connection mode WebSocket, and invite the bot to "
    "a server.",
)
SATORI = AccountKind(
    model=SatoriAccount,
    setting="satori_clients",
    check=_check_satori,
    hint="Start the Satori server with this host, port and token. The bot connects to it.",
)
MILKY = AccountKind(
    model=MilkyAccount,
    setting="milky_clients",
    check=_check_milky,
    hint="Let the Milky server listen at this host and port with this access token. The bot "
    "connects to it.",
    without={"milky_webhook": None},
)
