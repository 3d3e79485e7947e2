"""A value's changes, as they come."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from reaktiv import Effect

from nekro_core.reactive.loop_thread import LoopThread


@dataclass(frozen=True, slots=True)
class Glimpse:
    """A value at one moment.

    Attributes:
        value: What the value was; None where there was none.
        error: What the computation raised; None otherwise.
        final: Whether nothing ran any more that the value depends on.
    """

    value: Any
    error: Exception | None
    final: bool


class _Bell:
    """Rings when something that `look` reads has changed."""

    def __init__(self, look: Callable[[], object]) -> None:
        self._look = look
        self._home = LoopThread()
        self.rung = anyio.Event()

    def listen(self) -> None:
        self._look()
        self._home.call(self._ring)

    def _ring(self) -> None:
        self.rung.set()


@contextmanager
def watching(look: Callable[[], object]) -> Iterator[_Bell]:
    """Notice changes of what ``look``, which must not raise, reads."""
    bell = _Bell(look)
    effect = Effect(bell.listen)
    try:
        yield bell
    finally:
        effect.dispose()


async def follow(look: Callable[[], Glimpse]) -> AsyncGenerator[Glimpse]:
    """What ``look`` sees of a value, now and after each change, until it is final.

    Whoever is slow misses what was in between and never what is last. Close it early with
    `contextlib.aclosing`.
    """
    with watching(look) as bell:
        while True:
            await bell.rung.wait()
            bell.rung = anyio.Event()
            seen = look()
            yield seen
            if seen.final and not bell.rung.is_set():
                return
