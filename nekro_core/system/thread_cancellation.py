"""Lets blocking code in a worker thread notice that the task that waits for it was cancelled."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import anyio.from_thread

_thread = threading.local()


def stop_if_cancelled() -> None:
    """Raise the cancellation exception if this thread was started with `anyio.to_thread.run_sync`
    and the waiting task was cancelled.

    A thread cannot be stopped from outside. So long blocking work calls this function from time to
    time, at points where it can end without leaving work half-done. In any other thread, and within
    `not_stopped`, this does nothing.
    """
    if getattr(_thread, "not_stopped", False):
        return
    try:
        anyio.from_thread.check_cancelled()
    # This is not a worker thread of anyio, so nobody can cancel it.
    except RuntimeError:
        return


@contextmanager
def not_stopped() -> Iterator[None]:
    """Run a block to its end even if the waiting task was cancelled. A block that undoes earlier
    work needs this."""
    before = getattr(_thread, "not_stopped", False)
    _thread.not_stopped = True
    try:
        yield
    finally:
        _thread.not_stopped = before
