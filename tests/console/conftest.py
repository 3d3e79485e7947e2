"""Starts a bot in a temporary folder, and a client of its operator API. Sets how long the tests
with a browser wait."""

from collections.abc import AsyncIterator

import httpx
import pytest

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.console.operator_api import OperatorApi
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin

_EXPECT_MS = 20_000
"""Maximum number of milliseconds for which Playwright's `expect` waits for a change of a page. Its
default of 5 s is too short while other tests use the same two cores."""


@pytest.fixture(autouse=True)
def patient_expect(request: pytest.FixtureRequest) -> None:
    """Let the tests with a browser wait for a busy machine. The option belongs to the process, so
    each of them needs it, whichever tests the process ran before."""
    if request.node.get_closest_marker("browser"):
        from playwright.async_api import expect  # noqa: PLC0415 - most tests here need no browser

        expect.set_options(timeout=_EXPECT_MS)


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[App]:
    """A bot without platforms."""
    settings = Settings(nekro_data_dir=tmp_path_factory.mktemp("bot"), _env_file=None)  # type: ignore[call-arg]
    async with App.open(settings, {}, model=ScriptedModel(lambda _: "hi")) as running:
        yield running


@pytest.fixture(scope="module")
async def api(app: App) -> AsyncIterator[httpx.AsyncClient]:
    """The API. The header ``X-Role`` gives the role of the person who asks. Without it, the owner
    asks."""

    def actor_of(request: object) -> Actor:
        role = AccessRole(request.headers.get("x-role", "owner"))  # type: ignore[attr-defined]
        return Actor(name=role.value, role=role, origin=RequestOrigin.API, address="127.0.0.1")

    served = OperatorApi(app.operations, actor_of, "1.0")
    transport = httpx.ASGITransport(served)
    async with httpx.AsyncClient(transport=transport, base_url="http://bot") as client:
        yield client
