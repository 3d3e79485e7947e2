"""``/plugins/{key}``: what plugins answer with their routers.

One application that looks up whose request it is. It is mounted once, by whoever has a login to
put before it, so loading and unloading plugins never touches the web server's own routes.
"""

from typing import Any, cast

from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.authoring.web import PAGES, PluginRouter
from nekro_core.plugins.host.kinds import DeclarationRefused
from nekro_core.plugins.web.requests import PluginRequests, inner_path, refuse
from nekro_core.system.asgi import Receive, Scope, Send, WebApplication
from nekro_core.tools.describe import place_of

MAX_BODY_BYTES = 64 * 1024 * 1024
"""Largest request, as for the bot's own API."""
MAX_AT_ONCE = 64
"""Requests and sockets of one plugin at one time: a page keeps a few open."""
_THE_BOTS = ("app", "router", "endpoint", "route", "path_params")


class PluginPages:
    """An ASGI application that answers with plugins' routers. It checks no login: mount it behind
    one."""

    def __init__(self) -> None:
        self._pages: dict[str, tuple[WebApplication, PluginRequests]] = {}

    def __len__(self) -> int:
        return len(self._pages)

    def put(self, plugin: NekroPlugin, router: PluginRouter) -> None:
        """Answer with a plugin's router until it is unloaded. Raises `DeclarationRefused`."""
        where, key = place_of(router.factory), plugin.key
        if key in self._pages:
            raise DeclarationRefused(
                "it mounts two routers", where=where, remedy="include one in the other, mount one"
            )
        visits = PluginRequests(plugin, "its page", most=MAX_AT_ONCE, body_bytes=MAX_BODY_BYTES)
        self._pages[key] = (_application(router, where), visits)
        plugin.addresses.append(f"{PAGES}/{key}/")

        async def drop() -> None:
            del self._pages[key]
            await visits.close()

        plugin.effects.add(f"pages of {key}", drop)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on to the plugin that it names."""
        key = inner_path(scope).partition("/")[0]
        found = self._pages.get(key)
        if found is None:
            await refuse(scope, send, 404, "there is no such plugin, or it has no pages")
            return
        application, visits = found
        root = f"{scope.get('root_path', '')}/{key}"
        # What the bot's own router left in it would be asked for the plugin's routes by name.
        inner = {name: value for name, value in scope.items() if name not in _THE_BOTS}
        inner |= {"root_path": root, "app_root_path": root}
        if scope["path"] == root:
            inner["path"] = f"{root}/"
        await visits.serve(application, inner, receive, send)


def _application(router: PluginRouter, where: str) -> WebApplication:
    from fastapi import APIRouter, FastAPI  # noqa: PLC0415 - imported where there is a router

    routes: Any = router.factory()
    if not isinstance(routes, APIRouter):
        came = type(routes).__name__
        if hasattr(routes, "close"):
            routes.close()  # of an async function; nobody awaits it
        raise DeclarationRefused(
            f"its router is a {came}, expected fastapi.APIRouter",
            where=where,
            remedy="write def router() -> APIRouter under @plugin.mount_router()",
        )
    application = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    application.include_router(routes)
    return cast(WebApplication, application)
