"""A box of a scope's own: kept running, never stored, gone with the scope."""

import math
import time
from collections.abc import Mapping
from typing import Final

from nekro_core.plugins.authoring.services import PluginBoxSource
from nekro_core.sandbox.box import Box
from nekro_core.sandbox.named import BoxRecord, NamedBoxes, NamedBoxLimits, OwnerBoxes
from nekro_core.sandbox.named.storage import SavedState

_LIMITS: Final = NamedBoxLimits(default_image="", sleep_after_s=math.inf)


class _Nowhere:
    """Stores nothing. A scope does not outlive its process, and its boxes must leave no files."""

    async def records(self, owner: str) -> Mapping[str, BoxRecord | None]:
        del owner
        return {}

    async def remember(self, owner: str, name: str, record: BoxRecord) -> None:
        pass

    async def save(self, owner: str, name: str, box: Box, before: SavedState) -> SavedState:
        del owner, name, box
        return before

    async def restore(self, owner: str, name: str, box: Box) -> SavedState:
        del owner, name, box
        return SavedState()

    async def forget(self, owner: str, name: str) -> None:
        pass


def ephemeral_boxes(source: PluginBoxSource) -> OwnerBoxes:
    """Boxes that nobody puts to sleep and nobody stores. Whoever uses them destroys them."""
    return NamedBoxes(source, _Nowhere(), _LIMITS, clock=time.monotonic).of("scope")
