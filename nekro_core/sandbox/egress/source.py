"""Boxes that belong to no chat, with the way out that everyone has."""

from typing import Protocol

from nekro_core.sandbox.box import Box
from nekro_core.sandbox.egress.egress import Egress

NO_OWNER = ""
"""The owner of such boxes."""


class EgressBoxSource(Protocol):
    """Where boxes come from."""

    async def take(self, image: str = "") -> Box:
        """A fresh box of one's own."""


class DefaultEgressSource:
    """A source of boxes each of which may reach what `NO_OWNER`'s boxes may."""

    def __init__(self, source: EgressBoxSource, egress: Egress) -> None:
        self._source = source
        self._egress = egress

    async def take(self, image: str = "") -> Box:
        """A fresh box. Raises what the source raises, and `SandboxError`."""
        box = await self._source.take(image)
        try:
            await self._egress.attach(NO_OWNER, box.box_id, box)
        except BaseException:
            await box.destroy()
            raise
        return box
