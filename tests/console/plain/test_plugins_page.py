"""The list of plugins for the operator: on a page and over HTTP."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI

from nekro_core.api.adapter import PluginShown, PluginsShown
from nekro_core.console.plain.plugins_page import add_plugins, plugins_page

FINE = PluginShown(
    item="builtin/dice", key="nekro.dice", version="1.0", state="loaded", tools=("roll", "shake")
)
ODD = PluginShown(
    item="local/odd", state="broken", problems=("error: <b>plugin.py:3</b>: SyntaxError",)
)
RESTART = "numpy 1.26.4 runs, 2.1.0 is there: it changes at the next start"


class Plugins:
    """The plugins that the page lists."""

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
    app.include_router(plugins_page(operator))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://bot") as client:
        yield client


async def test_each_plugin_is_listed_with_its_error(web: httpx.AsyncClient) -> None:
    page = (await web.get("/ui/plugins")).text
    assert "nekro.dice" in page
    assert "roll, shake" in page
    assert "&lt;b&gt;plugin.py:3&lt;/b&gt;: SyntaxError" in page
    assert "restart of the bot" not in page
    chinese = await web.get("/ui/plugins", headers={"Accept-Language": "zh"})
    assert "有问题" in chinese.text
    found = (await web.get("/api/v1/plugins")).json()
    assert [each["state"] for each in found["plugins"]] == ["loaded", "broken"]
    assert found["plugins"][0]["tools"] == ["roll", "shake"]


async def test_packages_that_change_at_the_next_start_are_listed(
    web: httpx.AsyncClient, plugins: Plugins
) -> None:
    plugins.restart = (RESTART,)
    page = (await web.get("/ui/plugins")).text
    assert f"A restart of the bot changes this:<ul><li>{RESTART}</li></ul>" in page
    assert (await web.get("/api/v1/plugins")).json()["at_next_start"] == [RESTART]
