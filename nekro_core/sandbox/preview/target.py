"""What a preview reaches."""

from enum import StrEnum
from typing import Protocol

from anyio.abc import ByteStream


class PreviewTargetState(StrEnum):
    """What a preview finds."""

    RUNNING = "running"
    SLEEPING = "sleeping"
    """Its files are kept, nothing runs. A preview never wakes it."""
    GONE = "gone"
    """Destroyed: its previews are dead, for ever."""


class PreviewTarget(Protocol):
    """A box as its keeper sees it, over sleep and wake. Hashed by identity."""

    @property
    def preview_state(self) -> PreviewTargetState:
        """What it is now. Asking changes nothing, its idle clock included."""

    async def connect(self, port: int) -> ByteStream:
        """A connection to what listens on 127.0.0.1:``port`` inside, never waking the box.

        Raises `ConnectionRefusedError` where nothing listens, and `BoxLost` where the box is asleep
        or gone.
        """
