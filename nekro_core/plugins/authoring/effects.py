"""What a plugin has done to its bot, and how to undo it."""

import inspect
from collections.abc import Awaitable, Callable

import anyio
from loguru import logger

from nekro_core.plugins.authoring.faults import is_cancellation

Undo = Callable[[], Awaitable[object] | None]
"""Takes one thing back. What it gives is awaited where it can be."""


class UndoStack:
    """Undo steps in the order in which they came about. Undone in reverse, each one once."""

    def __init__(self) -> None:
        self._undo: dict[object, tuple[str, Undo]] = {}

    def __len__(self) -> int:
        return len(self._undo)

    def add(self, what: str, undo: Undo) -> Callable[[], None]:
        """Remember how to undo something that was just done.

        ``what`` names it in the log. The function that is given back forgets the step, for whoever
        took the thing back before.
        """
        step = object()
        self._undo[step] = (what, undo)

        def forget() -> None:
            self._undo.pop(step, None)

        return forget

    async def undo(self, limit_s: float = 1.5) -> None:
        """Undo everything. A step that fails or takes over ``limit_s`` is logged and does not keep
        the others from it; neither does being cancelled."""
        while self._undo:
            what, undo = self._undo.pop(next(reversed(self._undo)))
            try:
                with anyio.CancelScope(shield=True), anyio.fail_after(limit_s):
                    left = undo()
                    if inspect.isawaitable(left):
                        await left
            except TimeoutError:
                logger.error("{} is not undone after {:g} s", what, limit_s)
            except BaseException as error:
                if is_cancellation(error):
                    raise
                logger.exception("{} could not be undone", what)
