"""Runs a program in a worker process, so a crash of its C code costs one answer and not the bot.

A request is one line of JSON. An answer is one line of JSON, followed by as many bytes as its
``bytes`` says. A worker ends when its input ends, so it never outlives the bot. It also ends after
some minutes without a request, so an idle worker holds no memory.
"""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

import nekro_core
from nekro_core.system.child_processes import tolerate_exit
from nekro_core.system.errors import NekroError

_LONGEST_LINE = 1_000_000
_FAREWELL_S = 0.3
_GONE = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, OSError)


class WorkerLost(NekroError):
    """A worker cannot start, died twice over one request, or took too long."""


class WorkerProcess:
    """A worker that starts on demand, and again after it died. It gets one request at a time.

    Args:
        module: Run as a program by this Python, in an environment without any key of the bot.
        timeout_s: Seconds that an answer may take.
        environment: Variables that the worker gets.
    """

    def __init__(
        self, module: str, *, timeout_s: float = 60.0, environment: Mapping[str, str] | None = None
    ) -> None:
        # -P: nothing is imported from the folder in which the bot was started.
        self._command = (sys.executable, "-P", "-m", module)
        self._environment = dict(environment or {})
        self._name = module.rpartition(".")[2]
        self._timeout_s = timeout_s
        self._lock = anyio.Lock()
        self._process: Process | None = None
        self._reader: BufferedByteReceiveStream | None = None

    async def ask(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Ask the worker. If it dies, a new one gets the same request once more.

        Raises `WorkerLost` if it cannot start, dies again or takes too long.
        """
        async with self._lock:
            for _ in range(2):
                try:
                    with anyio.fail_after(self._timeout_s):
                        return await self._exchange(request)
                except _GONE:
                    await self._stop()
                except TimeoutError:
                    await self._stop()
                    raise WorkerLost(
                        f"{self._name} gave no answer within {self._timeout_s:g} s"
                    ) from None
                except BaseException:
                    # Cancelled before the answer: the next request would read this one's.
                    await self._stop()
                    raise
        raise WorkerLost(f"{self._name} died twice over the same request")

    async def aclose(self) -> None:
        """End the process, if there is one."""
        async with self._lock:
            await self._stop()

    @property
    def pid(self) -> int | None:
        """The id of the process while there is one."""
        return self._process.pid if self._process else None

    async def _exchange(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        process, reader = await self._running()
        assert process.stdin is not None
        await process.stdin.send(json.dumps(request).encode() + b"\n")
        answer = json.loads(await reader.receive_until(b"\n", _LONGEST_LINE))
        return answer, await reader.receive_exactly(answer["bytes"]) if answer["bytes"] else b""

    async def _running(self) -> tuple[Process, BufferedByteReceiveStream]:
        if self._process is None or self._reader is None:
            root = Path(nekro_core.__file__).parent.parent
            bare = {"PYTHONPATH": str(root), "PATH": os.defpath, "LANG": "C.UTF-8"}
            # A cancellation during the start would leave a process that nobody ends.
            with anyio.CancelScope(shield=True):
                process = await anyio.open_process(
                    self._command,
                    stdin=PIPE,
                    stdout=PIPE,
                    stderr=DEVNULL,
                    env=bare | self._environment,
                )
            assert process.stdout is not None
            self._process = tolerate_exit(process)
            self._reader = BufferedByteReceiveStream(process.stdout)
        return self._process, self._reader

    async def _stop(self) -> None:
        process, self._process, self._reader = self._process, None, None
        if process is None:
            return
        assert process.stdin is not None
        with anyio.CancelScope(shield=True):
            # The worker ends when its input ends, so it is killed only after a while. Killing a
            # process that has just ended would reap it before the event loop can.
            with suppress(*_GONE):
                await process.stdin.aclose()
            with anyio.move_on_after(_FAREWELL_S):
                await process.wait()
            if process.returncode is None:
                process.kill()
            await process.aclose()
