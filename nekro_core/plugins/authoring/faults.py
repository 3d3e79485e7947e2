"""Decides whether an exception from plugin code is the plugin's fault."""

import asyncio


def is_cancellation(error: BaseException) -> bool:
    """Return True if an exception means that the current task is being cancelled or its coroutine
    closed. Such an exception is not the plugin's fault. Call this in the frame that caught the
    exception.

    Any other exception is the plugin's fault and must not be raised further, whatever its class:
    if a plugin raises a `KeyboardInterrupt`, it would end the event loop; if a plugin awaits a task
    that was cancelled, the `CancelledError` would end the chat's turn. When Python closes a
    coroutine, it raises `GeneratorExit` in the coroutine's own frame. So if the traceback of a
    `GeneratorExit` has deeper frames, a plugin has raised it.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or bool(task.cancelling())
    if isinstance(error, GeneratorExit):
        raised = error.__traceback__
        return raised is None or raised.tb_next is None
    return False


class LoopBlocked(BaseException):
    """Raised in plugin code that blocks the event loop. It is not a subclass of `Exception`, so
    that it also ends a loop that has ``except Exception``."""
