"""Starts the process of the embedded model when it is needed, and again if it has died."""

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
"""Number of prompts that are cached at the same time: one for each language in which the bot has
example prompts."""
_LOG_TAIL = 2000
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "SYSTEMROOT")
_GRACE_S = 2.0
_NOTICE_S = 0.5


class ModelServer:
    """A process that serves one model file on a Unix socket, which only this user can reach.
    ``readings`` is the folder in which the process stores its caches of prompts that it has read.

    A new process uses the same socket and the same key as the process before it. Many tasks may use
    one `ModelServer` at the same time. If the process does not start, `ensure` raises
    `ModelUnreachable` with the end of the process's log.
    """

    def __init__(self, settings: EmbeddedSettings, readings: Path) -> None:
        self._settings = settings
        self._readings = readings
        # Use the system's temporary folder, because the path of a socket must be short.
        self._folder = LockedTempFolder(Path(tempfile.gettempdir()), "nekro-model-")
        self._lock = anyio.Lock()
        self._process: Process | None = None
        self.socket = self._folder.path / "model.sock"
        self.key = secrets.token_urlsafe(32)

    @property
    def running(self) -> bool:
        """True if the process runs and has loaded its model."""
        return self._process is not None and self._process.returncode is None

    @property
    def process_id(self) -> int | None:
        """Return the id of the running process; None if none runs."""
        return self._process.pid if self._process and self.running else None

    async def died(self) -> bool:
        """Return True if the process has ended. The method waits up to `_NOTICE_S` for the end,
        because a broken connection is noticed before the process has ended."""
        if self._process is None:
            return True
        with anyio.move_on_after(_NOTICE_S):
            await self._process.wait()
        return not self.running

    async def ensure(self, model: Path) -> None:
        """Start the process if none runs, and return when it listens."""
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
                # With -P, no file of this folder shadows a library.
                [sys.executable, "-P", str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self._environment(),
                start_new_session=True,  # Ctrl-C reaches only the bot, which ends the process
            )
        return tolerate_exit(process)

    def _environment(self) -> dict[str, str]:
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        # Let OpenMP's waiting threads sleep. Threads that spin while they wait become very slow if
        # another program computes: with one of two cores busy, 100 tokens took 83 s; with sleeping
        # threads, 5 to 12 s.
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
            # The server puts the name of a file directly after this text, so the text must end with
            # a slash.
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
    """Close the process's stdin, so that it ends. If it does not end, kill it."""
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
