"""Serves plugins' pages below ``/plugins/{key}``, with the plugins' routers.

One ASGI application finds the plugin of a request. The web server mounts this application once,
behind the login. So loading and unloading plugins never changes the web server's own routes.
"""

from typing import Any, cast

from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.authoring.web import PAGE_OF, PAGES, PluginRouter
from nekro_core.plugins.host.kinds import DeclarationRefused
from nekro_core.plugins.web.requests import PluginRequests, inner_path, refuse
from nekro_core.system.asgi import Receive, Scope, Send, WebApplication
from nekro_core.tools.describe import place_of

MAX_BODY_BYTES = 64 * 1024 * 1024
"""Maximum number of bytes of a request's body. The bot's own API has the same limit."""
MAX_AT_ONCE = 64
"""Maximum number of requests and WebSockets of one plugin at one time. A page keeps a few open."""
_THE_BOTS = ("app", "router", "endpoint", "route", "path_params")


class PluginPages:
    """An ASGI application that answers requests with plugins' routers. It does not check the login:
    mount it in a web server that does."""

    def __init__(self) -> None:
        self._pages: dict[str, tuple[WebApplication, PluginRequests]] = {}

    def __len__(self) -> int:
        return len(self._pages)

    def put(self, plugin: NekroPlugin, router: PluginRouter) -> None:
        """Serve a plugin's router until the plugin is unloaded. Raises `DeclarationRefused`."""
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
        """Pass a request to the plugin that its path names."""
        key = inner_path(scope).partition("/")[0]
        found = self._pages.get(key)
        if found is None:
            await refuse(scope, send, 404, "there is no such plugin, or it has no pages")
            return
        application, visits = found
        root = f"{scope.get('root_path', '')}/{key}"
        # Remove the values that the bot's router has set. Otherwise ``url_for`` in the plugin would
        # search the bot's routes.
        inner = {name: value for name, value in scope.items() if name not in _THE_BOTS}
        inner |= {"root_path": root, "app_root_path": root, PAGE_OF: key}
        if scope["path"] == root:
            inner["path"] = f"{root}/"
        await visits.serve(application, inner, receive, send)


def _application(router: PluginRouter, where: str) -> WebApplication:
    from fastapi import APIRouter, FastAPI  # noqa: PLC0415 - imported only if a plugin has a router

    routes: Any = router.factory()
    if not isinstance(routes, APIRouter):
        came = type(routes).__name__
        if hasattr(routes, "close"):
            routes.close()  # an async factory returned a coroutine; close it to avoid a warning
        raise DeclarationRefused(
            f"its router is a {came}, expected fastapi.APIRouter",
            where=where,
            remedy="write def router() -> APIRouter under @plugin.mount_router()",
        )
    application = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    _name_the_root(routes)
    application.include_router(routes)
    return cast(WebApplication, application)


def _name_the_root(router: Any) -> None:
    """Change empty paths of routes to ``/``. FastAPI refuses an empty path in a router without a
    prefix. Here both paths mean the plugin's first page."""
    for route in [each for each in router.routes if getattr(each, "path", None) == ""]:
        router.routes.remove(route)
        if not hasattr(route, "methods"):
            router.add_api_websocket_route("/", route.endpoint, name=route.name)
            continue
        named = [each for each in router.routes if getattr(each, "path", None) == "/"]
        taken = {method for each in named for method in getattr(each, "methods", None) or ()}
        if methods := sorted(route.methods - taken):
            router.add_api_route(
                "/",
                route.endpoint,
                methods=methods,
                response_model=route.response_model,
                response_class=route.response_class,
                status_code=route.status_code,
                dependencies=route.dependencies,
                name=route.name,
            )
