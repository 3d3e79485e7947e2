"""Keeps a process that has loaded the libraries for media. It forks a child for each file."""

import json
import os
import socket
from collections.abc import Mapping
from subprocess import DEVNULL
from typing import Any, Self

import anyio
from anyio import CancelScope, CapacityLimiter, Lock
from anyio.abc import Process

from nekro_core.media.child_answer import MOST_OUT, read_answer
from nekro_core.media.confined_process import command, environment
from nekro_core.media.errors import MediaError, UnusableMedia

_START_S = 60.0
"""Seconds for a process to load its libraries; on an idle machine it takes 0.4 s."""
_PIECE = 256 * 1024


class ForkServer:
    """Runs ``module``, which calls `nekro_core.media.fork_loop.serve`. An async context manager.

    The process starts with the first file. It ends after a minute without files, or when the
    context is left. Each file gets its own child process, which never sees another file, as in
    `nekro_core.media.confined_process`. At most ``at_once`` children run; further files wait.
    """

    def __init__(self, module: str, *, at_once: int) -> None:
        self._module = module
        self._places = CapacityLimiter(at_once)
        self._handing_over = Lock()
        self._line: socket.socket | None = None
        self._process: Process | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    @property
    def process_id(self) -> int | None:
        """The id of the process that forks the children; None if it does not run."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def run(
        self, request: Mapping[str, Any], source: int, *, seconds: int = 15
    ) -> tuple[dict[str, Any], bytes]:
        """Have a child handle the open file ``source``. Return the answer's fields and bytes.

        The child has ``seconds`` of processor time and twice as much real time. Raises
        `UnusableMedia` (also if the child dies or takes too long), `CodecMissing`, and `MediaError`
        if no child can be made.
        """
        words = json.dumps({**request, "seconds": seconds}).encode()
        async with self._places:
            read, write = os.pipe()
            try:
                try:
                    await self._hand_over(words, source, write)
                finally:
                    os.close(write)
                # The child's own timer ends it before this timeout.
                with anyio.fail_after(2 * seconds + 5):
                    answer = await _read(read)
            except TimeoutError:
                await self._end()
                raise UnusableMedia(f"it took longer than {2 * seconds} s") from None
            except OSError as error:
                raise MediaError(f"no process can be started for it: {error}") from error
            finally:
                os.close(read)
        return read_answer(answer)

    async def _hand_over(self, words: bytes, source: int, target: int) -> None:
        """Send the request and the two files to the process. Returns when the process has forked a
        child for them."""
        async with self._handing_over:
            for _ in range(2):
                line = self._line or await self._start()
                try:
                    os.lseek(source, 0, os.SEEK_SET)
                    if await _taken(line, words, source, target):
                        return
                except BaseException:
                    await self._end()  # The process may have read only a part of the request.
                    raise
                await self._end()  # the process was idle and has ended
            raise MediaError("the process that decodes pictures ends as soon as it starts")

    async def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = await anyio.open_process(
                    command(self._module),
                    stdin=theirs.fileno(),
                    stdout=DEVNULL,
                    stderr=DEVNULL,
                    env=environment(),
                )
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        self._line = ours
        return ours

    async def _end(self) -> None:
        line, process, self._line, self._process = self._line, self._process, None, None
        if line is not None:
            line.close()
        if process is not None:
            with CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()  # its children end with it
                await process.aclose()


async def _taken(line: socket.socket, words: bytes, source: int, target: int) -> bool:
    """Send a request. Return whether the process took it; False if it has ended."""
    try:
        socket.send_fds(line, [words], [source, target])
        with anyio.fail_after(_START_S):
            await anyio.wait_readable(line)
        return bool(line.recv(1))
    except (BrokenPipeError, ConnectionResetError):
        return False


async def _read(file: int) -> bytes:
    os.set_blocking(file, False)
    data = bytearray()
    while len(data) <= MOST_OUT:
        await anyio.wait_readable(file)
        if not (piece := os.read(file, _PIECE)):
            break
        data += piece
    return bytes(data)
