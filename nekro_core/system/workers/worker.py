"""Runs a program in a worker process, so that a crash of its C code does not end the bot.

A request is one line of JSON. An answer is one line of JSON, followed by as many bytes as its field
``bytes`` says. A worker ends when its input ends, so it ends with the bot. It also ends after some
minutes without a request, so that an idle worker uses no memory.
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
    """A worker cannot start, died twice during the same request, or took too long."""


class WorkerProcess:
    """A worker process. It is started when the first request is made, and started again if it has
    died. It gets one request at a time.

    Args:
        module: The module that Python runs as a program. The environment of the process contains no
            key of the bot.
        timeout_s: Time limit for an answer, in seconds.
        environment: Further environment variables for the worker.
    """

    def __init__(
        self, module: str, *, timeout_s: float = 60.0, environment: Mapping[str, str] | None = None
    ) -> None:
        # With -P, Python imports nothing from the folder in which the bot was started.
        self._command = (sys.executable, "-P", "-m", module)
        self._environment = dict(environment or {})
        self._name = module.rpartition(".")[2]
        self._timeout_s = timeout_s
        self._lock = anyio.Lock()
        self._process: Process | None = None
        self._reader: BufferedByteReceiveStream | None = None

    async def ask(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Send a request to the worker and return its answer. If the worker dies, a new worker gets
        the request.

        Raises `WorkerLost` if the worker cannot start, dies again or takes too long.
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
                    # The call was cancelled before the answer arrived. The worker is ended, because
                    # the next request would read this answer.
                    await self._stop()
                    raise
        raise WorkerLost(f"{self._name} died twice during the same request")

    async def aclose(self) -> None:
        """End the process, if there is one."""
        async with self._lock:
            await self._stop()

    @property
    def pid(self) -> int | None:
        """Return the id of the process; None if there is none."""
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
            # If the start were cancelled, no code would end the new process.
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
            # process that has just ended would reap the process before the event loop can reap it.
            with suppress(*_GONE):
                await process.stdin.aclose()
            with anyio.move_on_after(_FAREWELL_S):
                await process.wait()
            if process.returncode is None:
                process.kill()
            await process.aclose()
