"""Declarations of a plugin's pages and webhooks, and the request that a webhook's handler gets."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from nekro_core.chat import ChatKey, ChatKind

PAGES = "/plugins"
"""The path of plugins' pages: ``/plugins/{key}/``."""
PAGE_OF = "nekro_core.page_of"
"""A name in the ASGI scope of a request for a page of a plugin. Its value is the plugin's key. The
web server has checked the login of such a request."""
WEBHOOKS = "/api/webhook"
"""The path of webhooks: ``/api/webhook/{endpoint}/{secret}``."""

RouterFactory = Callable[[], Any]
"""``() -> fastapi.APIRouter``. The type is `Any` because FastAPI is imported only if a plugin has a
router."""
WebhookHandler = Callable[..., Awaitable[Any]]
"""``async (ctx) -> ...``. A dict or list that it returns becomes the JSON body of the response."""


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
    """The HTTP request of a webhook call; the handler gets it as ``ctx.webhook_request``. Anyone
    who has the address can send anything, so check the content.

    Attributes:
        endpoint: The part of the address that the author chose.
        headers: The headers. Upper and lower case in names are the same.
        query: The parameters after ``?`` in the URL.
        body: The decoded JSON or form; otherwise the text.
        raw: The body's bytes. Senders such as GitHub compute their signatures over these.
    """

    endpoint: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    raw: bytes = field(repr=False)
    client: str = ""
    """The sender's address. Behind a proxy, it is the address of the proxy, unless
    ``NEKRO_WEB__TRUSTED_PROXIES`` names the proxy."""


_NO_ACCOUNT = "webhook"
"""The instance in the chat keys that `no_chat_key` makes. No account has this instance."""


def no_chat_key(endpoint: str) -> ChatKey:
    """Make the chat key for the context of a webhook's handler. It belongs to no chat."""
    return ChatKey(_NO_ACCOUNT, ChatKind.CHANNEL, endpoint)


def is_no_chat(chat: ChatKey) -> bool:
    """Return True if `no_chat_key` made this key."""
    return chat.instance == _NO_ACCOUNT
