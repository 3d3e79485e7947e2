"""Reports the progress of a backup or a restore, and lets the caller stop it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from nekro_core.backup.errors import BackupCancelled

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupProgress:
    """The progress of the work. ``phase`` is ``database``, ``files``, ``check`` or ``restore``.
    ``done`` and ``total`` are bytes of this phase; ``total`` is an estimate."""

    phase: str
    done: int
    total: int


ReportProgress = Callable[[BackupProgress], None]
"""A function that is called with the progress. It is called from the worker thread, at most once
for each MiB and each file."""


class BackupWork:
    """The link between the thread that does the work and the task that waits for it."""

    def __init__(self, report: ReportProgress | None = None) -> None:
        self._report = report
        self._stopped = threading.Event()
        self._at = BackupProgress(phase="", done=0, total=0)

    def stop(self) -> None:
        """Make the work end soon; it then raises `BackupCancelled`."""
        self._stopped.set()

    def begin(self, phase: str, total: int) -> None:
        """Begin a phase. Raises `BackupCancelled`."""
        self._at = BackupProgress(phase=phase, done=0, total=total)
        self.advance(0)

    def advance(self, size: int) -> None:
        """Add a number of bytes to those that are done. Raises `BackupCancelled`."""
        self.set_done(self._at.done + size)

    def set_done(self, done: int, total: int | None = None) -> None:
        """Say how many bytes of the phase are done. Raises `BackupCancelled`."""
        if self._stopped.is_set():
            raise BackupCancelled("stopped before it was finished; nothing was changed")
        self._at = replace(self._at, done=done, total=self._at.total if total is None else total)
        if self._report is not None:
            self._report(self._at)


async def run_in_thread(work: BackupWork, function: Callable[[], _Result]) -> _Result:
    """Run a function in a thread. If the caller is cancelled, ``work`` is stopped, and this call
    returns only when the function has removed its files."""

    failure: Exception | None = None
    result: list[_Result] = []

    async def stop_when_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            if not result:
                work.stop()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop_when_cancelled)
        try:
            with anyio.CancelScope(shield=True):
                result.append(await anyio.to_thread.run_sync(function))
        except Exception as error:  # noqa: BLE001 (raised below, outside of the task group)
            failure = error
        tasks.cancel_scope.cancel()
    if isinstance(failure, BackupCancelled):
        await anyio.lowlevel.checkpoint()  # Raises the caller's cancellation, if there was one.
    if failure is not None:
        raise failure
    return result[0]
