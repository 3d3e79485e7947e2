"""Builds the bot's web site from the guard, the login, the pages, and the routes and pages of
adapters."""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp

from nekro_core import __version__
from nekro_core.console.access.authentication import Authenticator, cookie_name, session_key
from nekro_core.console.access.guard import Guard
from nekro_core.console.access.login import link_routes, login_routes
from nekro_core.console.access.login_attempts import Clock
from nekro_core.console.access.settings import AccessSettings
from nekro_core.console.deferred_page import DeferredPage
from nekro_core.console.download_routes import download_routes
from nekro_core.console.late_operator_api import LateOperatorApi
from nekro_core.console.plain.health_routes import health_routes
from nekro_core.console.plain.routes import plain_routes
from nekro_core.operator.audit import AuditLog
from nekro_core.operator.contract import OperatorHost
from nekro_core.operator.http_routes import API, PAGE, PLUGINS, WEBHOOKS, WebApiError
from nekro_core.operator.identity import Identity
from nekro_core.operator.late_operator import LateOperator
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.store import Store
from nekro_core.system.errors import NekroError
from nekro_core.system.secrets import kept_secret
from nekro_core.system.telemetry.readiness import BotMonitor

OPERATIONS = f"{API}/operator"
"""Path of the queries and actions of operators. They check roles and scopes themselves."""
_READING = frozenset({"GET", "HEAD"})


class WebSettingWrong(NekroError):
    """A setting of the web site is wrong. The text has its name and says what was expected."""


class ConsoleSite:
    """The web site. Implements `Site`. Adapters add their routes; then `install` serves all."""

    def __init__(
        self,
        authenticator: Authenticator,
        audit: AuditLog,
        settings: AccessSettings,
        bot_name: str,
    ) -> None:
        self.authenticator = authenticator
        self._audit = audit
        self._settings = settings
        self._bot_name = bot_name
        self._routers: list[tuple[APIRouter, str]] = []
        self._pages: list[Callable[[], None]] = []
        self._closing = anyio.Event()
        self._page: DeferredPage | None = None
        self.monitor: BotMonitor | None = None
        """Knows the bot's metrics, and whether the bot is ready. If it is None, the site serves
        neither ``/metrics`` nor ``/healthz`` and ``/readyz``."""

    @classmethod
    def of(
        cls, store: Store, data_dir: Path, configuration: Mapping[str, Any], *, clock: Clock
    ) -> Self:
        """Make the site of a bot. Raises `WebSettingWrong`, and `RuntimeError` if a file of a
        secret is empty."""
        try:
            settings = AccessSettings.read(configuration)
        except ValidationError as error:
            fault = error.errors(include_input=False)[0]
            said = fault["msg"].removeprefix("Value error, ")
            raise WebSettingWrong(f"{str(fault['loc'][0]).upper()}: {said}") from None
        given = settings.web_access_token
        token = given.get_secret_value() if given else kept_secret(data_dir, "web_access_token")
        secret = kept_secret(data_dir, "web_session_secret")
        identity = Identity.of(
            store,
            session_key=session_key(secret, token),
            session_s=settings.web_session_days * 86_400,
            clock=clock,
        )
        authenticator = Authenticator(
            identity, access_token=token, cookie=cookie_name(secret), clock=clock
        )
        bot_name = str(configuration.get("web_bot_name", "Nekro"))
        return cls(authenticator, AuditLog(store.audit), settings, bot_name)

    @property
    def identity(self) -> Identity:
        """The people of the console."""
        return self.authenticator.identity

    @property
    def access_token(self) -> str:
        """The owner's token, for `nekro chat` and other programs of this machine."""
        return self.authenticator.access_token

    def login_link(self, address: str) -> str:
        """Make a link that logs the owner in. It works once. ``address`` is, for example,
        ``http://127.0.0.1:8080``."""
        return f"{address.rstrip('/')}/?token={self.authenticator.new_link()}"

    def add_router(self, router: APIRouter, *, area: str) -> None:
        """See `Site.add_router`."""
        self._refuse_if_installed()
        for route in router.routes:
            path = str(getattr(route, "path", ""))
            if not any(path == each or path.startswith(f"{each}/") for each in (PAGE, API)):
                raise ValueError(
                    f"the path {path!r} is not behind the login: expected one below {PAGE} or {API}"
                )
        self._routers.append((router, area))

    def add_page(self, add: Callable[[], None]) -> None:
        """See `Site.add_page`."""
        self._refuse_if_installed()
        self._pages.append(add)

    def install(self, app: FastAPI, operator: OperatorHost, operations: LateOperator) -> None:
        """Serve the site with ``app``, and let `Guard` check every request of ``app``. Called once,
        after the adapters have added their routes."""
        page = self._page = DeferredPage(partial(self._open_pages, operations), self._closing)

        async def prepare() -> None:
            page.prepare()

        app.add_exception_handler(WebApiError, _answer)  # type: ignore[arg-type]
        # A person who sees the login opens a page next. So let the pages be made already
        # (`prepare`).
        for routes in (login_routes, link_routes):
            opened = routes(self.authenticator, self._audit)
            app.include_router(opened, dependencies=[Depends(prepare)])
        for router, area in (*plain_routes(operator), *self._routers):
            app.include_router(router, dependencies=[Depends(_allowed(area))])
        app.include_router(download_routes(operations, _actor_of))
        if self.monitor is not None:
            app.include_router(health_routes(self.monitor))
        app.mount(OPERATIONS, LateOperatorApi(operations, _actor_of, __version__))
        app.mount(PLUGINS, operator.pages)
        app.mount(WEBHOOKS, operator.webhooks)
        app.mount(PAGE, page)
        self._guard(app)

    def install_health(self, app: FastAPI) -> None:
        """Serve only the state and the metrics with ``app``, in place of the whole site, and let
        `Guard` check every request. For a process that has no pages."""
        if self.monitor is None:
            raise ValueError("a site without a monitor has no state to serve")
        app.add_exception_handler(WebApiError, _answer)  # type: ignore[arg-type]
        app.include_router(health_routes(self.monitor))
        self._guard(app)

    def _guard(self, app: FastAPI) -> None:
        app.add_middleware(
            Guard,
            authenticator=self.authenticator,
            allowed_hosts=self._settings.web_allowed_hosts,
            metrics_readers=self._metrics_readers,
        )

    def _metrics_readers(self) -> str:
        return self.monitor.readers if self.monitor is not None else "token"

    def start(self, tasks: TaskGroup) -> None:
        """Start the task that makes the pages when the first browser comes. Call it after
        `install`."""
        if self._page is not None:
            tasks.start_soon(self._page.keep)

    def close(self) -> None:
        """End the open pages, so that the web server can stop."""
        self._closing.set()

    async def _open_pages(self, operations: LateOperator) -> AbstractAsyncContextManager[ASGIApp]:
        """Import NiceGUI and all pages in a thread."""
        module = await anyio.to_thread.run_sync(import_module, "nekro_core.console.site")
        for add in self._pages:
            await anyio.to_thread.run_sync(add)
        pages: AbstractAsyncContextManager[ASGIApp] = module.open_console(
            await operations.get(), _actor_of, self._closing, self._bot_name
        )
        return pages

    def _refuse_if_installed(self) -> None:
        if self._page is not None:
            raise ValueError("the site serves requests already; add to it in create_page")


def _allowed(area: str) -> Callable[[HTTPConnection], Coroutine[Any, Any, None]]:
    """Make a FastAPI dependency that checks the role and the scopes of the person who makes the
    request."""

    async def check(connection: HTTPConnection) -> None:
        actor: Actor = connection.state.actor
        act = connection.scope.get("method") not in _READING
        if act and not actor.role.allows(AccessRole.OPERATOR):
            raise WebApiError(
                403, "role", f"{actor.name} is a {actor.role}: this needs the role operator"
            )
        if not actor.in_scope(area, acts=act):
            needed = f"{area}:{'act' if act else 'read'}"
            raise WebApiError(403, "scope", f"this needs an API token with the scope {needed}")

    return check


def _actor_of(request: Request) -> Actor:
    actor: Actor = request.state.actor
    return actor


async def _answer(_: Request, error: WebApiError) -> JSONResponse:
    return error.response()
