"""Starts bots quickly: a process imports all libraries once and forks a bot for each request.

Importing libraries takes most of a bot's start. A crash test with hundreds of kills forks its bots
from this process. After the fork, the unchanged `bot.py` runs. The process reads requests from
stdin and writes starts and ends of bots to stdout, each as one line of JSON.
"""

import asyncio
import importlib
import json
import os
import runpy
import select
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.faults import steps

ROOT = Path(__file__).parents[2]
IMPORTED = (
    "nekro_core.app.server",
    "nonebot.drivers.fastapi",
    "nonebot.drivers.httpx",
    "nonebot.drivers.websockets",
    "nonebot.adapters.onebot.v11",
    "nekro_core.llm.endpoint",
    "nicegui.ui",
    "tortoise.backends.asyncpg",
)
"""Modules that a bot imports at its start and with its first messages."""


FORK_S = 60.0
"""The longest time that the first bot may wait for the imports."""


class Forked:
    """A forked bot. It has the methods of `asyncio.subprocess.Process` that the tests use."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.ended = asyncio.Event()

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        await self.ended.wait()
        assert self.returncode is not None
        return self.returncode


class BotForker:
    """The test's connection to the process that forks."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._born: asyncio.Queue[int] = asyncio.Queue()
        self._living: dict[int, Forked] = {}

    async def fork(
        self,
        *,
        cwd: Path,
        log: Path,
        environment: Mapping[str, str],
        arguments: Sequence[str] = (),
    ) -> Forked:
        """Start a bot. With ``arguments``, start this command of ``nekro`` instead."""
        asked = {
            "cwd": str(cwd),
            "log": str(log),
            "environment": dict(environment),
            "arguments": list(arguments),
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        await self._process.stdin.drain()
        return self._living[await asyncio.wait_for(self._born.get(), FORK_S)]

    async def listen(self) -> None:
        """Read the starts and ends of bots until the process ends."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said: dict[str, Any] = json.loads(line)
            if "born" in said:
                self._living[said["born"]] = Forked(said["born"])
                self._born.put_nowait(said["born"])
            else:
                dead = self._living.pop(said["died"])
                dead.returncode = said["status"]
                dead.ended.set()


@asynccontextmanager
async def bot_forker() -> AsyncIterator[BotForker]:
    """A process that forks bots. It and its bots end with the context."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.e2e.forked_bots",
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    made = BotForker(process)
    listening = asyncio.ensure_future(made.listen())
    try:
        yield made
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        await listening


def main() -> None:
    """Fork a bot for each request and report ended bots, until stdin is closed."""
    living: set[int] = set()
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for name in IMPORTED:
        importlib.import_module(name)
    asked = b""
    while True:
        ready, _, _ = select.select([0, reader], [], [])
        if reader in ready:
            os.read(reader, 4096)
            while living:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                living.discard(pid)
                _say({"died": pid, "status": os.waitstatus_to_exitcode(status)})
        if 0 not in ready:
            continue
        data = os.read(0, 65536)
        if not data:
            break
        asked += data
        while b"\n" in asked:
            line, _, asked = asked.partition(b"\n")
            pid = _fork(json.loads(line), reader, writer)
            living.add(pid)
            _say({"born": pid})
    for pid in living:
        os.kill(pid, signal.SIGKILL)


def _say(what: dict[str, Any]) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


def _fork(asked: dict[str, Any], *inherited: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for each in inherited:
        os.close(each)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["cwd"])
    log = os.open(asked["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    steps.install(os.environ)
    if arguments := asked["arguments"]:
        from nekro_core.cli import main as nekro  # noqa: PLC0415 - only a forked bot needs it

        sys.exit(nekro(arguments))
    sys.argv = [str(ROOT / "bot.py")]
    runpy.run_path(str(ROOT / "bot.py"), run_name="__main__")
    os._exit(0)


if __name__ == "__main__":
    main()
