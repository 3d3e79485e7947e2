"""Whose fault an exception is that comes out of a plugin."""

import asyncio


def passes_through(error: BaseException) -> bool:
    """Whether it is not the plugin's: this task is being cancelled, or its coroutine closed.

    All else is, whatever it derives from. A plugin's `KeyboardInterrupt` would end the event loop,
    and a `CancelledError` of something that was cancelled elsewhere the chat's turn.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or bool(task.cancelling())
    return isinstance(error, GeneratorExit)


class LoopBlocked(BaseException):
    """Raised in a plugin's code that holds the event loop up. No `Exception`: code in a loop that
    goes on after each of those is what it ends."""
