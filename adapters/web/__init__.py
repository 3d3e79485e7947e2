"""Provides a chat page in the browser, and a small HTTP API for scripts."""

import time
from collections.abc import Callable
from functools import partial

import anyio
from fastapi import FastAPI
from nonebot.drivers import Driver
from pydantic import ValidationError

from nekro_core.api.adapter import Host, OperatorHost
from nekro_core.api.secrets import kept_secret

from .adapter import WebAdapter
from .authentication import Authenticator, Clock
from .deferred_page import DeferredPage, import_page
from .guard import PAGE, PLUGINS, WEBHOOKS, Guard
from .http_api import http_api
from .login import login_routes
from .outbox_page import outbox_page
from .plugins_page import plugins_page
from .posts import PostHandler
from .settings import WebSettings
from .turns_page import turns_page

SERVER_OPTIONS = {"timeout_graceful_shutdown": 2}
"""Seconds that the web server waits at shutdown for open requests. Without this limit, an event
stream would delay the shutdown, because it does not end by itself."""


def create_page(host: Host, driver: Driver, operator: OperatorHost) -> WebAdapter:
    """Add page and API to NoneBot's application. This can be done only once in a process, because
    NiceGUI does not allow a second page.

    Raises `RuntimeError` if the driver has no FastAPI application or a setting is wrong.
    """
    app = getattr(driver, "server_app", None)
    if not isinstance(app, FastAPI):
        raise RuntimeError(  # noqa: TRY004 - the factory's contract names this error
            "the web chat needs NoneBot's FastAPI driver: set DRIVER=~fastapi"
        )
    settings = _settings(host)
    closing = anyio.Event()
    page = DeferredPage(partial(import_page, operator, settings.web_bot_name, closing), closing)
    app.include_router(outbox_page(operator))  # before the mount, which gets the rest of /ui
    app.include_router(plugins_page(operator))
    app.include_router(turns_page(operator))
    app.mount(PAGE, page)
    return add_api(
        app, host, operator, settings, closing, page=lambda: driver.task_group.start_soon(page.keep)
    )


def add_api(
    app: FastAPI,
    host: Host,
    operator: OperatorHost,
    settings: WebSettings,
    closing: anyio.Event,
    *,
    clock: Clock = time.time,
    page: Callable[[], object] = lambda: None,
) -> WebAdapter:
    """Add the login routes and the HTTP API, and let `Guard` check every request of ``app``.

    The adapter sets ``closing`` when it is closed, and calls ``page`` when it starts.
    """
    token = settings.web_access_token
    authenticator = Authenticator(
        access_token=token.get_secret_value()
        if token
        else kept_secret(host.data_dir, "web_access_token"),
        session_secret=kept_secret(host.data_dir, "web_session_secret"),
        session_s=settings.web_session_days * 86400,
        clock=clock,
    )
    poster = PostHandler(host, settings.web_bot_name, clock)
    app.include_router(login_routes(authenticator))
    app.include_router(
        http_api(host, operator, authenticator, poster, settings.web_bot_name, closing)
    )
    app.mount(PLUGINS, operator.pages)
    app.mount(WEBHOOKS, operator.webhooks)
    app.add_middleware(Guard, authenticator=authenticator, allowed_hosts=settings.web_allowed_hosts)
    return WebAdapter(host, operator, authenticator, closing, page)


def _settings(host: Host) -> WebSettings:
    try:
        return WebSettings.read(host.settings)
    except ValidationError as error:
        fault = error.errors(include_input=False)[0]
        name = str(fault["loc"][0]).upper()
        raise RuntimeError(f"{name}: {fault['msg']}") from None


__all__ = ["SERVER_OPTIONS", "WebAdapter", "add_api", "create_page"]
