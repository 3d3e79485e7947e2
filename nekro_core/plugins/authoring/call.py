"""Holds the facts about one call of a plugin's code, and finds the call that runs now."""

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
    """The facts about one call of a plugin that the file functions use.

    Attributes:
        given: The arguments that the model wrote, or the text of a person's command.
        began: When the call began, in seconds since 1970. Files with a later time count as made
            during the call. The default is infinite, so that no file counts as made.
        by_code: Whether code in the chat's box makes the call. If this code names a host, the bot
            connects to the host only if the box's network rules allow it.
        shared_used: Whether the plugin used the path of the chat's shared folder.
        handed_in: Files of the shared folder that are already in the box.
    """

    given: Any = ()
    began: float = math.inf
    by_code: bool = False
    shared_used: bool = False
    handed_in: set[Path] = field(default_factory=set)

    @classmethod
    def now(cls, given: Any = (), *, by_code: bool = False) -> Self:
        """Make the object for a call that begins now."""
        return cls(given, time.time(), by_code)


class RunningCall(Protocol):
    """The fields of `AgentCtx` for modules that cannot import `AgentCtx`, because its module
    imports them."""

    @property
    def chat(self) -> ChatKey:
        """The chat that the context belongs to."""

    @property
    def asked_in(self) -> ChatKey | None:
        """See `AgentCtx.asked_in`."""

    @property
    def files(self) -> CallFiles:
        """The facts that the file functions use."""


_running: ContextVar[RunningCall | None] = ContextVar("nekro_running_call", default=None)


@contextmanager
def call_scope(call: RunningCall | None) -> Iterator[None]:
    """Enter this around a tool's handler, so that functions that get no context find the call."""
    token = _running.set(call)
    try:
        yield
    finally:
        _running.reset(token)


def running_call() -> RunningCall | None:
    """Get the context of the tool that runs now; None if no tool runs."""
    return _running.get()


def texts_of(call: CallFiles) -> Iterator[str]:
    """Yield every text among the arguments of a call."""
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
