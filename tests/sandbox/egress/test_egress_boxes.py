"""The operator allows one of two real boxes to reach a package index."""

import socket
from collections.abc import AsyncIterator

import anyio
import pytest

from nekro_core.sandbox.backends import open_backend
from nekro_core.sandbox.box import Backend, Box
from nekro_core.sandbox.egress import Egress, EgressRules, box_environment
from nekro_core.sandbox.settings import BackendName, SandboxSettings
from tests.sandbox.conftest import SMALL
from tests.sandbox.egress.package_index import FILE, index
from tests.sandbox.run_code import play

pytestmark = pytest.mark.jail


@pytest.fixture(scope="module")
async def letting_out(anyio_backend: str) -> AsyncIterator[Backend]:
    """A jail whose operator allows egress."""
    settings = SandboxSettings(backend=BackendName.JAIL, egress=("index.example",))
    async with anyio.create_task_group() as tasks:
        backend = await open_backend(settings, tasks)
        yield backend
        await backend.aclose()
        tasks.cancel_scope.cancel()


@pytest.fixture
async def boxes(letting_out: Backend) -> AsyncIterator[tuple[Box, Box]]:
    made = (await letting_out.create(SMALL), await letting_out.create(SMALL))
    yield made
    for box in made:
        await box.destroy()


INSTALL = "pip install --quiet greeting"
PROXY = "import socket; socket.create_connection(('127.0.0.1', 3128)).close()"
IMPORT = "import greeting; print(greeting.HELLO)"


async def test_pip_installs_from_an_allowed_index_into_that_box_only(
    boxes: tuple[Box, Box],
) -> None:
    allowed, other = boxes
    with index() as (port, asked):
        rules = {"lin": EgressRules.parse((), (f"127.0.0.1:{port}",))}
        environment = box_environment(f"http://127.0.0.1:{port}/simple/")
        async with Egress.open(
            lambda owner, _: rules.get(owner, EgressRules()), environment=environment
        ) as egress:
            await egress.attach("lin", "default", allowed)
            await egress.attach("mio", "default", other)

            installed = await allowed.execute(INSTALL, timeout_s=60)
            assert installed.exit_code == 0, installed.stderr.text
            assert asked == ["/simple/greeting/", f"/files/{FILE}"]
            assert (await play(allowed, IMPORT)).output == "hello from a wheel\n"
            shown = await allowed.execute(f"python3 -c '{IMPORT}'")
            assert shown.stdout.text == "hello from a wheel\n"

            assert "ModuleNotFoundError" in (await play(other, IMPORT)).error
            assert "ConnectionRefusedError" in (await play(other, PROXY)).error

            assert not (await play(allowed, PROXY)).error
            rules.clear()
            await egress.refresh()
            assert "ConnectionRefusedError" in (await play(allowed, PROXY)).error
            assert len(asked) == 2

        kept = await allowed.export_files()
        await other.import_files(kept)
        assert (await play(other, IMPORT)).output == "hello from a wheel\n", (
            "the package must be kept while the box sleeps"
        )


async def test_a_run_uses_its_egress_and_no_other_network(boxes: tuple[Box, Box]) -> None:
    box, _ = boxes
    with index() as (port, asked), socket.create_server(("127.0.0.1", 0)) as forbidden:
        forbidden.setblocking(False)
        closed = forbidden.getsockname()[1]
        rules = EgressRules.parse((), (f"127.0.0.1:{port}",))
        async with Egress.open(lambda *_: rules) as egress:
            await egress.attach("lin", "default", box)
            code = f"""
import os, socket, urllib.request, urllib.error
for key in ("no_proxy", "NO_PROXY"):
    del os.environ[key]

def get(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{{port}}/simple/greeting/") as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code

print(get({port}), get({closed}))
for target in (("127.0.0.1", {port}), ("127.0.0.1", {closed}), ("1.1.1.1", 80)):
    try:
        socket.create_connection(target, timeout=1)
        print("out")
    except OSError as error:
        print(type(error).__name__)
"""
            result = await play(box, code)
        lines = result.output.splitlines()
        assert lines[0] == "200 403", result
        assert "out" not in lines
        assert asked == ["/simple/greeting/"]
        with pytest.raises(BlockingIOError):
            forbidden.accept()
