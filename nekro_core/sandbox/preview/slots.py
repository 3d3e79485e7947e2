"""How many connections there are at once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nekro_core.sandbox.preview.registry import OpenPreview, PreviewTarget
from nekro_core.sandbox.preview.settings import PreviewSettings
from nekro_core.system.errors import NekroError


class ConnectionLimitReached(NekroError):
    """There are as many connections as may be."""


class ConnectionLimiter:
    """Counts connections: in all, of each box, of each name. A slow one keeps its own only."""

    def __init__(self, settings: PreviewSettings) -> None:
        self._settings = settings
        self._boxes: Counter[PreviewTarget] = Counter()
        self._names: Counter[str] = Counter()

    @contextmanager
    def taken(self, opened: OpenPreview) -> Iterator[None]:
        """Hold one slot. Raises `ConnectionLimitReached`."""
        if (
            self._names.total() >= self._settings.connections
            or self._boxes[opened.target] >= self._settings.connections_per_box
            or self._names[opened.token] >= self._settings.connections_per_name
        ):
            raise ConnectionLimitReached
        self._boxes[opened.target] += 1
        self._names[opened.token] += 1
        try:
            yield
        finally:
            _less(self._boxes, opened.target)
            _less(self._names, opened.token)


def _less(counter: Counter[Any], key: Any) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
