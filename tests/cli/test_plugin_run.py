"""`nekro plugin run`: an author talks to the bot of a plugin while editing the plugin."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from tests.peers.scripted_model import ScriptedModelServer
from tests.plugins.world import plugin_source

pytestmark = [pytest.mark.jail, pytest.mark.long]
LONG_S = 60.0


class Terminal:
    """The terminal of an author: types lines and waits for output."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, TextReceiveStream(process.stdout)
        self.seen = ""

    async def type(self, line: str) -> None:
        await self._in.send(f"{line}\n".encode())

    async def sees(self, words: str) -> None:
        with anyio.move_on_after(LONG_S):
            while words not in self.seen:
                self.seen += await self._out.receive()
        assert words in self.seen, self.seen


@asynccontextmanager
async def running(folder: Path, *arguments: str) -> AsyncIterator[Terminal]:
    command = [sys.executable, "-m", "nekro_core", *arguments]
    async with await anyio.open_process(command, cwd=folder, stderr=subprocess.STDOUT) as process:
        yield Terminal(process)
        assert process.stdin is not None
        await process.stdin.aclose()
        with anyio.fail_after(LONG_S):
            assert await process.wait() == 0


def said(word: str) -> str:
    return plugin_source("cup", "shake").replace(
        'return "ann: " + text', f'await _ctx.send_text("{word}")\n    return ""'
    )


async def test_a_plugin_is_loaded_again_as_soon_as_its_file_is_saved(
    folder: Path, write_env
) -> None:
    plugin = folder / "work" / "cup.py"
    plugin.parent.mkdir()
    plugin.write_text(said("first"))
    async with ScriptedModelServer(lambda _asked: "```python\nshake()\n```") as model:
        write_env(
            NEKRO_LLM__BASE_URL=model.base_url,
            NEKRO_LLM__MODEL="m",
            NEKRO_TRIGGER__DEBOUNCE_S="0.05",
            ONEBOT_WS_URLS='["ws://127.0.0.1:9/onebot"]',
        )
        async with running(folder, "plugin", "run", "work/cup.py") as terminal:
            await terminal.sees("its page: http://127.0.0.1:")
            await terminal.sees("loaded    ann.cup 1  shake")
            link = terminal.seen.partition("its page: ")[2].split()[0]
            async with httpx.AsyncClient(
                follow_redirects=True, trust_env=False, timeout=60
            ) as browser:
                assert (await browser.get(link)).status_code == 200
            await terminal.type("hello")
            await terminal.sees("bot: first")
            plugin.write_text("def broken(:")
            await terminal.sees("broken    ")
            await terminal.sees("cup.py:1: SyntaxError")
            plugin.write_text(said("second"))
            terminal.seen = ""
            await terminal.sees("loaded    ann.cup 1  shake")
            await terminal.type("hello again")
            await terminal.sees("bot: second")
    log = (folder / "data" / "tries" / "cup" / "chat.log").read_text()
    assert "127.0.0.1:9/onebot" not in log
    assert not (folder / "data" / "nekro.sqlite3").exists()
