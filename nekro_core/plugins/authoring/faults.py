"""Whether an exception is the fault of the plugin that it comes out of."""

import asyncio


def is_cancellation(error: BaseException) -> bool:
    """Whether the current task is being cancelled, or its coroutine closed: then the exception is
    not the plugin's fault. Call this in the frame that caught the exception.

    Any other exception is the plugin's, whatever its class. A plugin's `KeyboardInterrupt` would
    end the event loop, and a `CancelledError` from something cancelled elsewhere would end the
    chat's turn. Closing a coroutine closes what it awaits first and then raises in its own frame,
    so a `GeneratorExit` that came up from a deeper frame was raised by a plugin.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or bool(task.cancelling())
    if isinstance(error, GeneratorExit):
        raised = error.__traceback__
        return raised is None or raised.tb_next is None
    return False


class LoopBlocked(BaseException):
    """Raised in plugin code that blocks the event loop. It is no `Exception`, so that a loop with
    ``except Exception`` ends too."""
