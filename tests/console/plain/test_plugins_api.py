"""The plugins are listed over HTTP, and the old address of their page leads to the console."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI

from nekro_core.api.adapter import PluginShown, PluginsShown
from nekro_core.console.plain.moved_pages import moved_plugins
from nekro_core.console.plain.plugins_api import add_plugins

FINE = PluginShown(
    item="builtin/dice", key="nekro.dice", version="1.0", state="loaded", tools=("roll", "shake")
)
ODD = PluginShown(
    item="local/odd", state="broken", problems=("error: <b>plugin.py:3</b>: SyntaxError",)
)
RESTART = "numpy 1.26.4 runs, 2.1.0 is there: it changes at the next start"


class Plugins:
    """The plugins that are listed."""

    restart: tuple[str, ...] = ()

    def shown(self) -> PluginsShown:
        return PluginsShown(plugins=(FINE, ODD), at_next_start=self.restart)


@pytest.fixture
def plugins() -> Plugins:
    return Plugins()


@pytest.fixture
async def web(plugins: Plugins) -> AsyncIterator[httpx.AsyncClient]:
    operator: Any = SimpleNamespace(plugins=plugins)
    app, router = FastAPI(), APIRouter(prefix="/api/v1")
    add_plugins(router, operator)
    app.include_router(router)
    app.include_router(moved_plugins())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://bot") as client:
        yield client


async def test_each_plugin_is_listed_with_its_error(web: httpx.AsyncClient) -> None:
    found = (await web.get("/api/v1/plugins")).json()
    assert [each["state"] for each in found["plugins"]] == ["loaded", "broken"]
    assert found["plugins"][0]["tools"] == ["roll", "shake"]
    assert found["plugins"][1]["problems"] == ["error: <b>plugin.py:3</b>: SyntaxError"]
    assert found["at_next_start"] == []


async def test_packages_that_change_at_the_next_start_are_listed(
    web: httpx.AsyncClient, plugins: Plugins
) -> None:
    plugins.restart = (RESTART,)
    assert (await web.get("/api/v1/plugins")).json()["at_next_start"] == [RESTART]


async def test_the_old_address_of_the_page_leads_to_the_console(web: httpx.AsyncClient) -> None:
    answer = await web.get("/ui/plugins")
    assert (answer.status_code, answer.headers["location"]) == (308, "/ui/console/plugins")
