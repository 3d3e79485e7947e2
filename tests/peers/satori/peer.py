"""Controls the Satori process: sends people's messages and records the bot's calls."""

import importlib.util
import itertools
import json
import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, Self

import anyio
from anyio.abc import Process, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.peers.ports import free_port

ROOT = Path(__file__).parents[3]
PLATFORM, SELF, TOKEN = "mem", "bot1", "a token for tests"
SENDS = ("message.create", "upload.create")
START_S = 60.0
LINE_BYTES = 64 * 1024 * 1024

Json = dict[str, Any]


def missing() -> str:
    """Return why the process cannot run on this machine; empty if it can."""
    if importlib.util.find_spec("satori") is None:
        return "satori-python-server is not installed: pip install satori-python-server"
    return ""


@dataclass(frozen=True)
class Call:
    """A call from the bot."""

    action: str
    params: Json
    result: Any = None
    refused: bool = field(default=False)

    @property
    def content(self) -> str:
        return str(self.params.get("content", ""))


class SatoriPeer:
    """A running Satori process with one login. An async context manager."""

    def __init__(self, *, token: str = TOKEN, self_id: str = SELF, port: int = 0) -> None:
        self.token, self.self_id = token, self_id
        self.port = port or free_port()
        self.calls: list[Call] = []
        self.connections = 0
        self.log: list[str] = []
        self.on_call: Callable[[Call], None] | None = None
        self._numbers = itertools.count(1)
        self._changed = anyio.Event()
        self._process: Process | None = None
        self._stack = AsyncExitStack()

    @property
    def client(self) -> Json:
        """The adapter's settings for this process: an item of ``SATORI_CLIENTS``."""
        return {"host": "127.0.0.1", "port": self.port, "token": self.token}

    async def __aenter__(self) -> Self:
        self._tasks: TaskGroup = await self._stack.enter_async_context(anyio.create_task_group())
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        with anyio.CancelScope(shield=True):
            await self.stop()
        self._tasks.cancel_scope.cancel()
        await self._stack.aclose()

    async def start(self) -> None:
        """Start the process. Like a real implementation, it starts without the data of earlier
        starts."""
        self._process = await anyio.open_process(
            [
                sys.executable, "-m", "tests.peers.satori.program",
                str(self.port), self.token, PLATFORM, self.self_id,
            ],
            cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=DEVNULL,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )  # fmt: skip
        self._tasks.start_soon(self._listen, self._process)
        with anyio.fail_after(START_S):
            while not await _answers(self.port):
                await anyio.sleep(0.02)

    async def stop(self) -> None:
        """Kill the process."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    # -- people ------------------------------------------------------------------------------

    async def say(self, channel: str, user: str, *parts: str, **more: Any) -> str:
        """Post a person's message made of texts. Returns its id. For Satori elements use `raw`."""
        return await self.raw(channel, user, "".join(escape(part) for part in parts), **more)

    async def raw(self, channel: str, user: str, content: str, *, id: str = "", **more: Any) -> str:  # noqa: A002
        """Post a person's message written in Satori elements. Returns its id."""
        identity = id or f"p{next(self._numbers)}"
        order = {"channel": channel, "user": user, "content": content, "id": identity}
        await self._order("say", **order, **more)
        return identity

    async def event(self, kind: str, channel: str, user: str, **more: Any) -> None:
        """Send an event that is not a message."""
        await self._order("event", type=kind, channel=channel, user=user, **more)

    async def keep(self, path: str, data: bytes, mime: str) -> str:
        """Store a file on the platform. Returns its address for use in a message."""
        await self._order("file", path=path, data=data.hex(), mime=mime)
        return f"internal:{PLATFORM}/{self.self_id}/{path}"

    async def refuse(self, action: str = "message.create", **more: Any) -> None:
        """Refuse the next call of this action."""
        await self._order("answer", action=action, kind="refuse", **more)

    async def silence(self, action: str = "message.create", seconds: float = 3600) -> None:
        """Carry out the next call of this action at once, and answer it after ``seconds``."""
        await self._order("answer", action=action, kind="silence", seconds=seconds)

    async def hang_up(self) -> None:
        """Close every WebSocket. The bot may connect again."""
        await self._order("hang_up")

    # -- what the bot did ----------------------------------------------------------------------

    @property
    def sends(self) -> list[Call]:
        return [call for call in self.calls if call.action in SENDS and not call.refused]

    async def sent(self, count: int, within: float = 30) -> list[Call]:
        """Wait until the bot has sent this many messages, and return them."""
        await self.until(lambda: len(self.sends) >= count, within)
        return self.sends

    async def until(self, condition: Callable[[], bool], within: float = 30) -> None:
        """Wait until a condition on the peer's state holds."""
        with anyio.fail_after(within):
            while not condition():
                await self._changed.wait()

    async def wait_connected(self, count: int = 1, within: float = 30) -> None:
        """Wait until the bot has connected this many times."""
        await self.until(lambda: self.connections >= count, within)

    # -- inside ----------------------------------------------------------------------------------

    async def _order(self, what: str, **more: Any) -> None:
        assert self._process is not None, "the implementation is stopped"
        assert self._process.stdin is not None
        line = json.dumps({"do": what, **more}) + "\n"
        await self._process.stdin.send(line.encode())

    async def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        lines = BufferedByteReceiveStream(process.stdout)
        with suppress(anyio.IncompleteRead, anyio.ClosedResourceError, anyio.BrokenResourceError):
            while True:
                self._take(await lines.receive_until(b"\n", LINE_BYTES))

    def _take(self, line: bytes) -> None:
        if not line.startswith(b"{"):
            self.log.append(line.decode(errors="replace"))
            return
        told = json.loads(line)
        if "connected" in told:
            self.connections += 1
        if "call" in told:
            refused = bool(told.get("refused"))
            call = Call(**told["call"], result=told.get("result"), refused=refused)
            self.calls.append(call)
            if self.on_call is not None:
                self.on_call(call)
        self._changed.set()
        self._changed = anyio.Event()


async def _answers(port: int) -> bool:
    try:
        async with await anyio.connect_tcp("127.0.0.1", port):
            return True
    except OSError:
        return False
