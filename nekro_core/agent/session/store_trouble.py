"""A store that cannot write for a while: a disk is full for minutes."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from loguru import logger

from nekro_core.chat import ChatKey
from nekro_core.store import StoreUnavailable

STORE_PAUSE_S = 1.0
"""How long until the store is tried again that could not write."""
_Written = TypeVar("_Written")


class StoreOutage:
    """What one chat's session knows of it."""

    def __init__(self, chat_key: ChatKey) -> None:
        self._chat_key = chat_key
        self.lasts = False
        """Whether the store could not write when it was last asked to."""

    def on_error(self, error: StoreUnavailable) -> None:
        """Told once, and again after it worked in between."""
        if not self.lasts:
            logger.error("{}: a turn waits until the store can write: {}", self._chat_key, error)
        self.lasts = True

    async def written(self, act: Callable[[], Awaitable[_Written]]) -> _Written:
        """Do what the store may be unable to do now, until it can: a turn that is not closed there
        would let no other begin."""
        while True:
            try:
                done = await act()
            except StoreUnavailable as error:
                self.on_error(error)
                await anyio.sleep(STORE_PAUSE_S)
            else:
                self.lasts = False
                return done


def store_error_in(error: Exception) -> StoreUnavailable | None:
    """The store's own error, also where a group of tasks has wrapped it."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error if isinstance(error, StoreUnavailable) else None
