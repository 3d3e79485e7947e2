"""What a plugin has done to its bot, and how to undo it."""

from collections.abc import Callable

from loguru import logger


class Effects:
    """Undo steps in the order in which they came about. Undone in reverse, each one once."""

    def __init__(self) -> None:
        self._undo: list[tuple[str, Callable[[], None]]] = []

    def __len__(self) -> int:
        return len(self._undo)

    def add(self, what: str, undo: Callable[[], None]) -> None:
        """Remember how to undo something that was just done."""
        self._undo.append((what, undo))

    def undo(self) -> None:
        """Undo everything. A step that fails is logged and does not keep the others from it."""
        while self._undo:
            what, undo = self._undo.pop()
            try:
                undo()
            except Exception:  # noqa: BLE001 - the others must be undone whatever this one does
                logger.exception("{} could not be undone", what)
