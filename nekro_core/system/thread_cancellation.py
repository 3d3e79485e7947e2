"""Lets blocking code in a worker thread notice that the task that waits for it was cancelled."""

import anyio.from_thread


def stop_if_cancelled() -> None:
    """Raise the cancellation exception if this thread was started with `anyio.to_thread.run_sync`
    and the waiting task was cancelled.

    A thread cannot be stopped from outside, so long blocking work calls this from time to time,
    where it can end without leaving anything half-done. In any other thread this does nothing.
    """
    try:
        anyio.from_thread.check_cancelled()
    except RuntimeError:  # no worker thread of anyio: nobody can cancel it
        return
