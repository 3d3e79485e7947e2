"""Runs the whole bot as a separate process, as a user starts it, in a folder of the test."""

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.forked_bots import BotForker, Forked

ROOT = Path(__file__).parents[2]
START_S = 90.0
"""The longest time for a start. A start usually takes two seconds, but much longer on a busy
machine."""


@dataclass
class BotProcess:
    """A bot in its own process. The system chooses a free port."""

    data: Path
    environment: Mapping[str, str]
    command: Sequence[str] = (sys.executable, str(ROOT / "bot.py"))
    bot_forker: BotForker | None = None
    """If set, the process of this forker forks the bot. If None, the bot starts as a new
    interpreter."""
    process: asyncio.subprocess.Process | Forked | None = None
    running: dict[str, Any] = field(default_factory=dict)
    started_in: float = 0.0
    arguments: Sequence[str] = ()
    """What follows ``command``. If there are arguments, ``bot_forker`` starts this command of
    ``nekro`` instead of `bot.py`."""
    without: Collection[str] = ()
    """Environment variables of the test's process that the bot does not get."""

    @property
    def address(self) -> str:
        """The URL of its web server."""
        return str(self.running["address"])

    @property
    def token(self) -> str:
        """The access token of its HTTP API."""
        return str(self.running["token"])

    @property
    def onebot_url(self) -> str:
        """The URL to which an OneBot implementation connects."""
        return self.address.replace("http", "ws", 1) + "/onebot/v11/ws"

    @property
    def log(self) -> str:
        """Everything that it printed."""
        return (self.data.parent / "bot.log").read_text(errors="replace")

    async def start(self) -> None:
        """Start the bot, and wait until it has written `running.json`."""
        began = time.monotonic()
        await self.begin()
        note = self.data / "running.json"
        while not note.exists():
            if self.process.returncode is not None or time.monotonic() - began > START_S:
                raise AssertionError(f"the bot did not start:\n{self.log[-4000:]}")
            await asyncio.sleep(0.02)
        self.running = json.loads(note.read_text())
        self.started_in = time.monotonic() - began

    async def login_link(self) -> str:
        """Wait for the link that logs in once, and return it. The bot prints it after it has
        written `running.json`."""
        began = time.monotonic()
        while not (found := re.search(r"^ +(http://\S+\?token=\S+)$", self.log, re.MULTILINE)):
            if time.monotonic() - began > START_S:
                raise AssertionError(f"the bot printed no link:\n{self.log[-4000:]}")
            await asyncio.sleep(0.02)
        return found[1]

    async def begin(self) -> None:
        """Start the bot, and do not wait."""
        (self.data / "running.json").unlink(missing_ok=True)
        folder, log = self.data.parent, self.data.parent / "bot.log"
        inherited = {name: os.environ[name] for name in os.environ if name not in self.without}
        environment = {**inherited, **self.environment, "NEKRO_DATA_DIR": str(self.data)}
        if self.bot_forker is not None:
            self.process = await self.bot_forker.fork(
                cwd=folder, log=log, environment=environment, arguments=self.arguments
            )
            return
        with log.open("ab") as written:
            self.process = await asyncio.create_subprocess_exec(
                *self.command,
                *self.arguments,
                cwd=folder,
                env=environment,
                stdout=written,
                stderr=written,
            )

    async def stop(self, how: signal.Signals = signal.SIGTERM, within: float = 60.0) -> float:
        """End the bot with a signal. Return the seconds that this took."""
        assert self.process is not None
        began = time.monotonic()
        if self.process.returncode is None:
            self.process.send_signal(how)
            try:
                await asyncio.wait_for(self.process.wait(), within)
            except TimeoutError:
                self.process.kill()
                await self.process.wait()
                raise AssertionError(f"{how.name} did not end the bot in {within} s") from None
        return time.monotonic() - began

    async def kill(self) -> None:
        """End the bot with SIGKILL. It cannot clean up, as after a power cut."""
        await self.stop(signal.SIGKILL)


@asynccontextmanager
async def running_bot(
    folder: Path,
    command: Sequence[str] = BotProcess.command,
    bot_forker: BotForker | None = None,
    **settings: str,
) -> AsyncIterator[BotProcess]:
    """A bot on a free port, with its data under ``folder``. ``settings`` are named as in
    ``.env``."""
    environment = {"PORT": "0", "LOG_LEVEL": "DEBUG", **settings}
    bot = BotProcess(folder / "data", environment, command, bot_forker)
    try:
        await bot.start()
        yield bot
    finally:
        if bot.process is not None:  # The bot may run although it did not start in time.
            await bot.stop()
