"""Defines the settings of one account, and says what to enter into the OneBot implementation."""

import json
import re
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from nekro_core.api.adapter import ConnectionHint, HintField, HintSnippet

from .paths import WEBSOCKET_PATH

SHARED_TOKEN = "ONEBOT_ACCESS_TOKEN"  # noqa: S105 - the name of a setting
"""The setting with the access token for accounts that have no token of their own."""
ADDRESSES = "ONEBOT_V11_WS_URLS"


class OneBotAccount(BaseModel):
    """The settings of one account."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    connection: Literal["reverse", "forward"] = Field(
        default="reverse",
        title="Who connects",
        description="reverse: the OneBot program connects to the bot. forward: the bot connects to "
        "the OneBot program.",
    )
    account: str = Field(
        default="",
        title="Account",
        description="The account's number. Needed for reverse. For forward, another account at the "
        "address is refused if this is set.",
        max_length=64,
    )
    address: str = Field(
        default="",
        title="Address",
        description="For forward: where the OneBot program listens, such as ws://127.0.0.1:3001.",
        max_length=500,
    )
    access_token: SecretStr = Field(
        default=SecretStr(""),
        title="Access token",
        description="Both sides must have the same. For reverse it may be empty: the bot then "
        "makes one. For forward it is the OneBot program's token.",
    )

    @field_validator("account", "address", mode="before")
    @classmethod
    def _texts(cls, value: object) -> object:
        return str(value).strip() if isinstance(value, str | int) else value

    @field_validator("account")
    @classmethod
    def _number(cls, account: str) -> str:
        if not re.fullmatch(r"[!-~]*", account):
            raise ValueError("expected the account's number, such as 10001, without spaces")
        return account

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.connection == "reverse":
            if not self.account:
                raise ValueError("account: a reverse connection needs the account's number")
            if self.address:
                raise ValueError("address: only a forward connection has one; leave it empty")
            return self
        try:
            parts = urlsplit(self.address)
            valid = parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
        if not valid:
            raise ValueError("address: expected an address such as ws://127.0.0.1:3001")
        return self

    @property
    def token(self) -> str:
        """Return the access token."""
        return self.access_token.get_secret_value()


def hint_for(account: OneBotAccount, address: str) -> ConnectionHint:
    """Return what to enter into the OneBot implementation. ``address`` is the address at which the
    bot's web server is reached, such as ``http://10.0.0.5:8080``."""
    return _reverse(account, address) if account.connection == "reverse" else _forward(account)


def _reverse(account: OneBotAccount, address: str) -> ConnectionHint:
    url = f"{re.sub('^http', 'ws', address)}{WEBSOCKET_PATH}"
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "wss" else 80)
    napcat = {
        "network": {
            "websocketClients": [
                {
                    "name": "nekro",
                    "enable": True,
                    "url": url,
                    "messagePostFormat": "array",
                    "reportSelfMessage": False,
                    "reconnectInterval": 5000,
                    "heartInterval": 30000,
                    "token": account.token,
                }
            ]
        }
    }
    lagrange = {
        "Implementations": [
            {
                "Type": "ReverseWebSocket",
                "Host": parts.hostname,
                "Port": port,
                "Suffix": WEBSOCKET_PATH,
                "ReconnectInterval": 5000,
                "HeartBeatInterval": 5000,
                "AccessToken": account.token,
            }
        ]
    }
    go_cqhttp = (
        "servers:\n"
        "  - ws-reverse:\n"
        f"      universal: {json.dumps(url)}\n"
        "      reconnect-interval: 3000\n"
        "      middlewares:\n"
        f"        access-token: {json.dumps(account.token)}\n"
    )
    return ConnectionHint(
        text=f"In the OneBot program that is logged in as {account.account}, add a reverse "
        "WebSocket (NapCat calls it a WebSocket client) with this address and token, and message "
        "format array. If the program runs on another machine or in a container, the address must "
        "be one at which it reaches this machine, and the bot must listen there (HOST).",
        fields=(
            HintField(label="URL", value=url),
            HintField(label="Token", value=account.token, secret=True),
        ),
        snippets=(
            _snippet(f"NapCat: config/onebot11_{account.account}.json", napcat),
            _snippet("Lagrange.OneBot: appsettings.json", lagrange),
            HintSnippet(
                title="go-cqhttp: config.yml", language="yaml", text=go_cqhttp, secret=True
            ),
        ),
    )


def _forward(account: OneBotAccount) -> ConnectionHint:
    parts = urlsplit(account.address)
    port = parts.port or (443 if parts.scheme == "wss" else 80)
    napcat = {
        "network": {
            "websocketServers": [
                {
                    "name": "nekro",
                    "enable": True,
                    "host": parts.hostname,
                    "port": port,
                    "messagePostFormat": "array",
                    "reportSelfMessage": False,
                    "heartInterval": 30000,
                    "token": account.token,
                }
            ]
        }
    }
    lagrange = {
        "Implementations": [
            {
                "Type": "ForwardWebSocket",
                "Host": parts.hostname,
                "Port": port,
                "HeartBeatInterval": 5000,
                "AccessToken": account.token,
            }
        ]
    }
    go_cqhttp = (
        "servers:\n"
        "  - ws:\n"
        f"      address: {json.dumps(f'{parts.hostname}:{port}')}\n"
        "      middlewares:\n"
        f"        access-token: {json.dumps(account.token)}\n"
    )
    return ConnectionHint(
        text=f"In the OneBot program, let a WebSocket server listen at {account.address} with this "
        "token and message format array. The bot connects to it.",
        fields=(
            HintField(label="Port", value=str(port)),
            HintField(label="Token", value=account.token, secret=True),
        ),
        snippets=(
            _snippet("NapCat: config/onebot11_ACCOUNT.json", napcat),
            _snippet("Lagrange.OneBot: appsettings.json", lagrange),
            HintSnippet(
                title="go-cqhttp: config.yml", language="yaml", text=go_cqhttp, secret=True
            ),
        ),
    )


def _snippet(title: str, content: object) -> HintSnippet:
    text = json.dumps(content, indent=2)
    return HintSnippet(title=title, language="json", text=text, secret=True)
