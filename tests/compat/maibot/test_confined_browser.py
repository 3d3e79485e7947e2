"""Chromium reads pages that strangers may have written. The tests check what its processes may
do."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from nekro_core.compat.maibot.capabilities.confined_browser import CannotConfine, confined_page
from nekro_core.compat.maibot.capabilities.render import html2png
from nekro_core.compat.maibot.capability import CapabilityCall

SIZE = {"width": 200, "height": 100}


def processes() -> dict[int, tuple[str, str]]:
    """The command line and the status of each living process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            status = (path / "status").read_text()
        except OSError:
            continue
        if "State:\tZ" not in status:
            found[int(path.name)] = command, status
    return found


def own_folder() -> str:
    """The name of the folder of the page that this process is drawing."""
    living = processes()
    for number, (command, _) in living.items():
        folder = re.search(r"nekro-page-\w+", command)
        parent = number
        while folder and parent in living:
            if parent == os.getpid():
                return folder[0]
            parent = int(field(living[parent][1], "PPid"))
    raise LookupError("no page is drawn")


def field(status: str, name: str) -> str:
    found = re.search(rf"^{name}:\s+(\S+)", status, re.MULTILINE)
    assert found is not None
    return found[1]


async def ends(folder: str) -> None:
    with anyio.fail_after(30):
        while any(folder in command for command, _ in processes().values()):
            await anyio.sleep(0.05)
    assert not Path("/tmp", folder).exists()


@pytest.mark.browser
@pytest.mark.long
async def test_chromium_runs_in_its_sandbox_and_not_as_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NEKRO_LLM__API_KEY", "a secret key")
    program = shutil.which("chromium")
    assert program is not None
    async with confined_page(program, viewport=SIZE, scale=1.0) as page:
        await page.set_content("<p>hello")
        folder, living = own_folder(), processes()
        started = {n: each for n, each in living.items() if f"{folder}/home" in each[0]}
        browser = next(n for n, each in started.items() if "--type=" not in each[0])
        user = field(living[browser][1], "Uid")
        assert user != "0"
        assert not any("--no-sandbox" in command for command, _ in started.values())
        assert b"a secret key" not in Path("/proc", str(browser), "environ").read_bytes()
        readers = [
            status
            for command, status in living.values()
            if "--type=renderer" in command and field(status, "Uid") == user
        ]
        assert readers
        assert {field(status, "Seccomp") for status in readers} == {"2"}
        assert {int(field(status, "CapEff"), 16) for status in readers} == {0}
    await ends(folder)


@pytest.mark.browser
@pytest.mark.long
async def test_chromium_ends_with_a_page_that_takes_too_long() -> None:
    program = shutil.which("chromium")
    assert program is not None
    folder = ""
    with anyio.move_on_after(5) as waiting:
        async with confined_page(program, viewport=SIZE, scale=1.0) as page:
            folder = own_folder()
            await page.set_content("<script>while (true) {}</script>")
    assert waiting.cancelled_caught
    assert folder
    await ends(folder)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that other users can read."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path


async def test_without_a_sandbox_the_page_is_drawn_as_text(
    reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("playwright")
    program = reachable / "chromium"
    program.write_text("#!/bin/sh\necho 'No usable sandbox! Update your kernel' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(CannotConfine, match="sandbox"):
        async with confined_page(str(program), viewport=SIZE, scale=1.0):
            pass
    monkeypatch.setenv("PATH", f"{reachable}:{os.environ['PATH']}")
    unused: Any = None
    bot: Any = SimpleNamespace(
        services=SimpleNamespace(fetcher=None), pages=anyio.CapacityLimiter(1)
    )
    call = CapabilityCall(
        name="render.html2png",
        args={"html": "<p>words"},
        bot=bot,
        plugin=unused,
        hooks=unused,
        plugins=unused,
    )
    made = await html2png(call)
    assert made["result"]["width"] == 800
