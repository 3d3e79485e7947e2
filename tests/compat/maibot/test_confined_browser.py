"""Chromium reads a page that a stranger may have written: what its processes may do."""

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


def processes_of(folder: str) -> list[tuple[str, str]]:
    """The command line and the status of each process that has the folder in its command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            status = (path / "status").read_text()
        except OSError:
            continue
        if folder in command and "/chromium" in command and "State:\tZ" not in status:
            found.append((command, status))
    return found


def renderers() -> list[str]:
    """The status of each process of Chromium that reads pages."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if b"--type=renderer" in (path / "cmdline").read_bytes():
                found.append((path / "status").read_text())
        except OSError:
            continue
    return found


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
        started = processes_of("nekro-page-")
        assert started
        assert not any("--no-sandbox" in command for command, _ in started)
        for _, status in started:
            if "chromium" in status.partition("\n")[0]:
                assert not re.search(r"^Uid:\t0\t", status, re.MULTILINE)
        confined = renderers()
        assert confined
        assert all("Seccomp:\t2" in status for status in confined)
        assert all("CapEff:\t0000000000000000" in status for status in confined)
    with anyio.fail_after(10):
        while processes_of("nekro-page-"):
            await anyio.sleep(0.05)
    assert not [*Path("/tmp").glob("nekro-page-*")]


@pytest.mark.browser
@pytest.mark.long
async def test_chromium_ends_with_a_page_that_takes_too_long() -> None:
    program = shutil.which("chromium")
    assert program is not None
    with anyio.move_on_after(3) as waiting:
        async with confined_page(program, viewport=SIZE, scale=1.0) as page:
            await page.set_content("<script>while (true) {}</script>")
    assert waiting.cancelled_caught
    with anyio.fail_after(10):
        while processes_of("nekro-page-"):
            await anyio.sleep(0.05)


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
