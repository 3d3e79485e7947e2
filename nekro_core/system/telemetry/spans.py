"""Defines spans: the beginning and the end of each piece of the bot's work, for tracing.

Without tracing, all of this does nothing: `NO_TRACER` makes no object and imports nothing.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Protocol

AttributeValue = str | int | float | bool | tuple[str, ...]
Attributes = Mapping[str, AttributeValue]


class TracedContent(StrEnum):
    """What of chats may be in traces. By default, nothing is."""

    PROMPTS = "prompts"
    """What models are shown."""
    REPLIES = "replies"
    """What models reply."""
    TOOLS = "tools"
    """The arguments of tool calls."""
    CHATS = "chats"
    """The keys of chats. The key of a private chat contains the id of its person."""


class Span(Protocol):
    """One piece of work. It must be ended once."""

    def note(self, name: str, value: AttributeValue) -> None:
        """Add an attribute."""

    def fail(self, error: str) -> None:
        """Note that the work failed. ``error`` is a word, without content of chats."""

    def end(self) -> None:
        """End the work now."""


class Tracer(Protocol):
    """Makes spans."""

    @property
    def enabled(self) -> bool:
        """Whether spans are recorded."""

    def shows(self, content: TracedContent) -> bool:
        """Return True if this content may be in spans."""

    def begin(
        self,
        name: str,
        attributes: Attributes,
        *,
        parent: Span | None = None,
        client: bool = False,
    ) -> Span:
        """Begin a piece of work.

        Args:
            name: Its name. There are few different names.
            attributes: What is known at its beginning.
            parent: The work to which it belongs; by default the work of the running task.
            client: Whether another system is asked.
        """

    def current(self) -> Span | None:
        """Return the work of the running task. A task that did not inherit the context of the work,
        for example because it reads a box's pipe, needs it as ``parent``."""

    @contextmanager
    def work(
        self, name: str, attributes: Attributes, *, parent: Span | None = None
    ) -> Iterator[Span]:
        """Do a piece of work in the block. Work that begins in the block belongs to it. An error
        that leaves the block is noted by its class."""


class _NoSpan:
    """A span that is not recorded."""

    __slots__ = ()

    def note(self, name: str, value: AttributeValue) -> None:
        """Do nothing."""

    def fail(self, error: str) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


class _NoTracer:
    """A tracer without tracing."""

    enabled = False
    _span = _NoSpan()

    def shows(self, content: TracedContent) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def begin(
        self,
        name: str,  # noqa: ARG002
        attributes: Attributes,  # noqa: ARG002
        *,
        parent: Span | None = None,  # noqa: ARG002
        client: bool = False,  # noqa: ARG002
    ) -> Span:
        """Return a span that is not recorded."""
        return self._span

    def current(self) -> Span | None:
        """Return None."""
        return None

    @contextmanager
    def work(
        self,
        name: str,  # noqa: ARG002
        attributes: Attributes,  # noqa: ARG002
        *,
        parent: Span | None = None,  # noqa: ARG002
    ) -> Iterator[Span]:
        """Yield a span that is not recorded."""
        yield self._span


NO_TRACER: Tracer = _NoTracer()
"""Records nothing. It has no state, so all bots of a process share it."""
