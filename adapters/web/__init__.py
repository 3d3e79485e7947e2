"""Provides a chat page in the browser, and a small HTTP API for scripts. Both are behind the login
of the console."""

import time
from importlib import import_module

import anyio
from nonebot.drivers import Driver
from pydantic import ValidationError

from nekro_core.api.adapter import Host, OperatorHost

from .adapter import WebAdapter
from .http_api import http_api
from .posts import Clock, PostHandler
from .settings import WebSettings

SERVER_OPTIONS = {"timeout_graceful_shutdown": 2}
"""Seconds that the web server waits at shutdown for open requests. Without this limit, an event
stream would delay the shutdown, because such a stream does not end by itself."""


def create_page(host: Host, _driver: Driver, operator: OperatorHost) -> WebAdapter:
    """Add page and API to the bot's web site. This can be done only once in a process, because
    NiceGUI does not allow a second page.

    Raises `RuntimeError` if a setting is wrong.
    """
    settings = _settings(host)
    closing = anyio.Event()

    def add_page() -> None:
        # The page is imported here, because importing NiceGUI takes a quarter of the time of the
        # start.
        import_module(".page", __package__).add_chat_page(operator, settings.web_bot_name, closing)

    operator.site.add_page(add_page)
    return add_api(host, operator, settings, closing)


def add_api(
    host: Host,
    operator: OperatorHost,
    settings: WebSettings,
    closing: anyio.Event,
    *,
    clock: Clock = time.time,
) -> WebAdapter:
    """Add the HTTP API to the bot's web site.

    The adapter sets ``closing`` when it is closed.
    """
    poster = PostHandler(host, settings.web_bot_name, clock)
    router = http_api(host, operator, poster, settings.web_bot_name, closing)
    operator.site.add_router(router, area="rooms")
    return WebAdapter(host, operator, closing)


def _settings(host: Host) -> WebSettings:
    try:
        return WebSettings.read(host.settings)
    except ValidationError as error:
        fault = error.errors(include_input=False)[0]
        name = str(fault["loc"][0]).upper()
        raise RuntimeError(f"{name}: {fault['msg']}") from None


__all__ = ["SERVER_OPTIONS", "WebAdapter", "add_api", "create_page"]
