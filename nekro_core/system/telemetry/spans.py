"""Defines spans, for tracing. A span records when a piece of the bot's work begins and ends.

If tracing is off, `NO_TRACER` takes the place of the tracer: it does nothing, makes no objects and
imports nothing.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Protocol

AttributeValue = str | int | float | bool | tuple[str, ...]
Attributes = Mapping[str, AttributeValue]


class TracedContent(StrEnum):
    """Which content of chats may be in spans. By default, no content is."""

    PROMPTS = "prompts"
    """What models are shown."""
    REPLIES = "replies"
    """What models reply."""
    TOOLS = "tools"
    """The arguments of tool calls."""
    CHATS = "chats"
    """The keys of chats. The key of a private chat contains the id of its person."""


class Span(Protocol):
    """The record of one piece of work. `end` must be called once."""

    def note(self, name: str, value: AttributeValue) -> None:
        """Add an attribute to the span."""

    def fail(self, error: str) -> None:
        """Note that the work failed. ``error`` is a word that names the error. It must not contain
        content of chats."""

    def end(self) -> None:
        """Note that the work has ended now."""


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
        """Begin the span of a piece of work.

        Args:
            name: The name of the work. Use few different names.
            attributes: What is known about the work at its beginning.
            parent: The span of the work to which this work belongs; by default the span of the
                running task.
            client: Whether the work is a request to another system.
        """

    def current(self) -> Span | None:
        """Return the span of the work that the running task does; None if there is none. Some tasks
        do not inherit the context of this work, such as the task that reads a box's pipe. Give them
        this span, so that they can use it as ``parent``."""

    @contextmanager
    def work(
        self, name: str, attributes: Attributes, *, parent: Span | None = None
    ) -> Iterator[Span]:
        """Record the block as a piece of work. Work that begins in the block belongs to this work.
        If an error leaves the block, the span notes the class of the error."""


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
    """A tracer that records nothing."""

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
