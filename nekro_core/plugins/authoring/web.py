"""Declarations of a plugin's pages and webhooks, and the request that a webhook's handler gets."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from nekro_core.chat import ChatKey, ChatKind

PAGES = "/plugins"
"""Where plugins' pages are: ``/plugins/{key}/``."""
WEBHOOKS = "/api/webhook"
"""Where webhooks are: ``/api/webhook/{endpoint}/{secret}``."""

RouterFactory = Callable[[], Any]
"""``() -> fastapi.APIRouter``. Named loosely: FastAPI is imported where there is one."""
WebhookHandler = Callable[..., Awaitable[Any]]
"""``async (ctx) -> ...``. A dict or list that it returns is the answer, as JSON."""


class PluginRouter(msgspec.Struct, frozen=True):
    """A plugin's pages, as `NekroPlugin.mount_router` declares them."""

    factory: RouterFactory


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook, as `NekroPlugin.mount_webhook_method` declares it."""

    endpoint: str
    name: str
    description: str
    handler: WebhookHandler


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRequest:
    """A call of a webhook, ``ctx.webhook_request`` in its handler. A sender that has the address
    can send anything, so check the content.

    Attributes:
        endpoint: The part of the address that the author chose.
        headers: The headers. Names are found in upper and lower case.
        query: The parameters behind ``?``.
        body: The JSON or the form that came, else the text.
        raw: The body's bytes, over which senders such as GitHub make their signatures.
    """

    endpoint: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    raw: bytes = field(repr=False)
    client: str = ""
    """The sender's address. Behind a proxy it is the proxy's, unless
    ``NEKRO_WEB__TRUSTED_PROXIES`` names the proxy."""


_NO_ACCOUNT = "webhook"
"""An instance that no account has."""


def no_chat_key(endpoint: str) -> ChatKey:
    """The chat key in the context of a webhook's handler. It belongs to no chat."""
    return ChatKey(_NO_ACCOUNT, ChatKind.CHANNEL, endpoint)


def is_no_chat(chat: ChatKey) -> bool:
    """Whether a key is one of `no_chat_key`."""
    return chat.instance == _NO_ACCOUNT
