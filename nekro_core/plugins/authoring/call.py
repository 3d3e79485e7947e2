"""One call of a plugin: what the caller gave it, and which call runs now."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from nekro_core.chat import ChatKey


@dataclass(slots=True, eq=False)
class CallFiles:
    """What the file functions must know of one call of a plugin.

    Attributes:
        given: What the model wrote, or the person who typed a command.
        began: When the call began, in seconds since 1970, as files are dated. Without a call it is
            infinite, so that no file counts as made during the call.
        by_code: Whether the chat's code calls. A host that it names is reached as its boxes reach
            it.
        shared_used: Whether the plugin asked for the chat's shared folder.
        handed_in: Files of that folder that the box has already.
    """

    given: Any = ()
    began: float = math.inf
    by_code: bool = False
    shared_used: bool = False
    handed_in: set[Path] = field(default_factory=set)

    @classmethod
    def now(cls, given: Any = (), *, by_code: bool = False) -> Self:
        """Make the value for a call that begins now."""
        return cls(given, time.time(), by_code)


class RunningCall(Protocol):
    """What this package's lower modules read of the context of a call (`AgentCtx`)."""

    @property
    def chat(self) -> ChatKey:
        """The chat that the context belongs to."""

    @property
    def asked_in(self) -> ChatKey | None:
        """The chat whose run made the context, where a run did."""

    @property
    def files(self) -> CallFiles:
        """What the call has to do with files."""


_running: ContextVar[RunningCall | None] = ContextVar("nekro_running_call", default=None)


@contextmanager
def call_scope(call: RunningCall | None) -> Iterator[None]:
    """Enter this around a tool's handler: functions without a context then find its call."""
    token = _running.set(call)
    try:
        yield
    finally:
        _running.reset(token)


def running_call() -> RunningCall | None:
    """Get the context of the tool that runs; None where none does."""
    return _running.get()


def texts_of(call: CallFiles) -> Iterator[str]:
    """Yield every text that was given to a call."""
    return _texts(call.given)


def _texts(given: Any) -> Iterator[str]:
    match given:
        case str():
            yield given
        case bytes() | bytearray():
            yield given.decode("utf-8", "replace")
        case dict():
            for key, value in given.items():
                yield from _texts(key)
                yield from _texts(value)
        case list() | tuple() | set() | frozenset():
            for each in given:
                yield from _texts(each)
