"""Whose fault an exception is that comes out of a plugin."""

import asyncio


def is_cancellation(error: BaseException) -> bool:
    """Whether it is not the plugin's: this task is being cancelled, or its coroutine closed. Asked
    in the frame that caught it.

    All else is, whatever it derives from. A plugin's `KeyboardInterrupt` would end the event loop,
    and a `CancelledError` of something that was cancelled elsewhere the chat's turn. Whoever closes
    a coroutine closes what it awaits first, and then raises in its own frame: a `GeneratorExit`
    that came up from further down was raised by a plugin.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or bool(task.cancelling())
    if isinstance(error, GeneratorExit):
        raised = error.__traceback__
        return raised is None or raised.tb_next is None
    return False


class LoopBlocked(BaseException):
    """Raised in a plugin's code that holds the event loop up. No `Exception`: code in a loop that
    goes on after each of those is what it ends."""
