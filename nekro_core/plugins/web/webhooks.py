"""Serves webhooks at ``/api/webhook/{endpoint}/{secret}``, which other servers call.

These servers cannot log in and cannot send a header that the bot defines. So a secret part of the
URL authenticates them. This part is derived from one secret of the bot: it stays the same after a
restart and is different for each webhook. If the file ``secrets/webhooks`` is deleted, all URLs
change.
"""

import base64
import hmac
import re
from collections.abc import Callable
from functools import partial

import anyio
import msgspec

from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.authoring.web import WEBHOOKS, Webhook, no_chat_key
from nekro_core.plugins.host.kinds import DeclarationRefused
from nekro_core.plugins.web.requests import (
    PluginRequests,
    UnreadableRequest,
    inner_path,
    read_request,
    refuse,
)
from nekro_core.system.asgi import Receive, Scope, Send
from nekro_core.tools.describe import place_of

MAX_BODY_BYTES = 25 * 1024 * 1024
"""Maximum number of bytes of a call's body. GitHub sends bodies up to this size."""
BODY_S = 30.0
"""Seconds within which a call's body must arrive."""
HANDLER_S = 60.0
"""Maximum number of seconds that a handler may take. Most senders wait less long."""
MAX_AT_ONCE = 16
"""Maximum number of calls of one webhook at one time."""
_ENDPOINT = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")


class _Hook(msgspec.Struct, frozen=True, eq=False):
    plugin: NekroPlugin
    webhook: Webhook
    secret: bytes
    visits: PluginRequests


class Webhooks:
    """An ASGI application that calls plugins' webhooks. ``key`` returns the bot's secret for all
    webhooks; it is called when a webhook is mounted."""

    def __init__(self, key: Callable[[], str]) -> None:
        self._key = key
        self._hooks: dict[str, list[_Hook]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._hooks.values()))

    def put(self, plugin: NekroPlugin, webhook: Webhook) -> None:
        """Accept calls of a plugin's webhook until the plugin is unloaded. Raises
        `DeclarationRefused`."""
        where, endpoint = place_of(webhook.handler), webhook.endpoint
        if not _ENDPOINT.match(endpoint):
            raise DeclarationRefused(
                f"a webhook cannot be called {endpoint!r}",
                where=where,
                remedy="use letters, digits, '.', '-' and '_', 64 at most",
            )
        if any(hook.plugin is plugin for hook in self._hooks.get(endpoint, ())):
            raise DeclarationRefused(
                f"the webhook {endpoint} is there twice", where=where, remedy="rename one"
            )
        secret = self._secret(plugin.key, endpoint)
        what = f"its webhook {endpoint}"
        visits = PluginRequests(plugin, what, most=MAX_AT_ONCE, body_bytes=MAX_BODY_BYTES)
        hook = _Hook(plugin, webhook, secret.encode(), visits)
        self._hooks.setdefault(endpoint, []).append(hook)
        plugin.addresses.append(f"{WEBHOOKS}/{endpoint}/{secret}")

        async def drop() -> None:
            self._hooks[endpoint].remove(hook)
            if not self._hooks[endpoint]:
                del self._hooks[endpoint]
            await visits.close()

        plugin.effects.add(f"webhook {endpoint}", drop)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an HTTP request."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await refuse(scope, send, 405, "a webhook is called with POST")
        elif (hook := self._found(inner_path(scope))) is None:
            # A wrong endpoint and a wrong secret get the same answer, so that nobody can find out
            # which endpoints exist.
            await refuse(scope, send, 404, "there is no such webhook")
        else:
            await hook.visits.serve(partial(_answer, hook), scope, receive, send)

    def _found(self, path: str) -> _Hook | None:
        endpoint, _, offered = path.partition("/")
        found = None
        for hook in self._hooks.get(endpoint, ()):
            if hmac.compare_digest(offered.encode("utf-8", "replace"), hook.secret):
                found = hook
        return found

    def _secret(self, plugin: str, endpoint: str) -> str:
        digest = hmac.digest(self._key().encode(), f"{plugin}\n{endpoint}".encode(), "sha256")
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


async def _answer(hook: _Hook, scope: Scope, receive: Receive, send: Send) -> None:
    from starlette.responses import JSONResponse  # noqa: PLC0415 - only requests need it

    with anyio.move_on_after(BODY_S) as limit:
        try:
            request = await read_request(hook.webhook.endpoint, scope, receive)
        except UnreadableRequest as error:
            await refuse(scope, send, error.status, str(error))
            return
    if limit.cancelled_caught:
        await refuse(scope, send, 408, "the body did not come in time")
        return
    here = AgentCtx.for_chat(no_chat_key(hook.webhook.endpoint), webhook_request=request)
    ctx = here.called_for(hook.plugin.key)
    with anyio.move_on_after(HANDLER_S) as limit:
        answer = await hook.webhook.handler(ctx)
    if limit.cancelled_caught:
        await refuse(scope, send, 504, "the plugin took too long")
        return
    body = answer if isinstance(answer, dict | list) else {"ok": True}
    await JSONResponse(body)(scope, receive, send)
