"""Starts the process of the embedded model when it is needed, and again after it died."""

import json
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from nekro_core.llm.embedded.openmp import library_path
from nekro_core.llm.embedded.settings import EmbeddedSettings
from nekro_core.llm.model import ModelUnreachable
from nekro_core.system.child_processes import tolerate_exit
from nekro_core.system.locked_temp_folder import LockedTempFolder

SLOTS = 3
"""Prompts that are cached at the same time: one for each language of the examples."""
_LOG_TAIL = 2000
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "SYSTEMROOT")
_GRACE_S = 2.0
_NOTICE_S = 0.5


class ModelServer:
    """One model file served on a Unix socket that only this user can reach.

    The socket and the key stay the same when the process is replaced. Safe to use from many tasks
    at once. Raises `ModelUnreachable` where the process does not come up, with the end of its log.
    """

    def __init__(self, settings: EmbeddedSettings, readings: Path) -> None:
        self._settings = settings
        self._readings = readings
        # The folder holds a socket, whose path must be short.
        self._folder = LockedTempFolder(Path(tempfile.gettempdir()), "nekro-model-")
        self._lock = anyio.Lock()
        self._process: Process | None = None
        self.socket = self._folder.path / "model.sock"
        self.key = secrets.token_urlsafe(32)

    @property
    def running(self) -> bool:
        """Whether the process is up and has loaded its model."""
        return self._process is not None and self._process.returncode is None

    @property
    def process_id(self) -> int | None:
        """The id of the running process, to measure its memory."""
        return self._process.pid if self._process and self.running else None

    async def died(self) -> bool:
        """Whether the process has ended. Waits a moment, since a broken connection is noticed
        first."""
        if self._process is None:
            return True
        with anyio.move_on_after(_NOTICE_S):
            await self._process.wait()
        return not self.running

    async def ensure(self, model: Path) -> None:
        """Start the process if needed, and return when it listens."""
        async with self._lock:
            if self.running:
                return
            await self._stop()
            self.socket.unlink(missing_ok=True)
            self._readings.mkdir(parents=True, exist_ok=True, mode=0o700)
            log = self._folder.path / "log"
            process = await self._open(log)
            try:
                await self._wait_ready(process, model, log)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await _end(process)
                raise
            self._process = process

    async def aclose(self) -> None:
        """End the process and remove its socket."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                await self._stop()
                self._folder.remove()

    async def _open(self, log: Path) -> Process:
        script = Path(__file__).with_name("serve.py")
        with log.open("wb") as errors:
            process = await anyio.open_process(
                [sys.executable, "-P", str(script)],  # -P: nothing of our folder shadows a library
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self._environment(),
                start_new_session=True,  # Ctrl-C is for the bot, which then ends this in order
            )
        return tolerate_exit(process)

    def _environment(self) -> dict[str, str]:
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        # Spinning threads become very slow when another program computes: with one busy core of
        # two, 100 tokens took 83 s, but 5 to 12 s with threads that sleep while they wait.
        environment["OMP_WAIT_POLICY"] = "passive"
        if folder := library_path(self._folder.path):
            before = environment.get("LD_LIBRARY_PATH")
            environment["LD_LIBRARY_PATH"] = f"{folder}:{before}" if before else str(folder)
        return environment

    async def _wait_ready(self, process: Process, model: Path, log: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        order = {
            "model": str(model),
            "socket": str(self.socket),
            "key": self.key,
            "threads": self._settings.threads or _cores(),
            "slots": SLOTS,
            "context_tokens": SLOTS * self._settings.context_tokens,
            # The server appends a file's name without a slash.
            "readings": f"{self._readings}/",
            "idle_unload_s": self._settings.idle_unload_s,
        }
        seconds = self._settings.start_s
        try:
            with anyio.fail_after(seconds):
                await process.stdin.send(json.dumps(order).encode() + b"\n")
                answer = BufferedByteReceiveStream(process.stdout)
                await answer.receive_until(b"\n", 1000)
        except TimeoutError:
            raise ModelUnreachable(
                f"the embedded model was not loaded within {seconds:g} s: "
                "the machine is too busy or too small"
            ) from None
        except (OSError, anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead):
            said = await anyio.Path(log).read_bytes()
            tail = said[-_LOG_TAIL:].decode(errors="replace").strip()
            raise ModelUnreachable(
                f"the embedded model's process ended while loading {model.name}: {tail}"
            ) from None

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await _end(process)


async def _end(process: Process) -> None:
    """Ask the process to end, and kill it if it does not."""
    if process.stdin is not None:
        await process.stdin.aclose()
    with anyio.move_on_after(_GRACE_S):
        await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()
    await process.aclose()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
