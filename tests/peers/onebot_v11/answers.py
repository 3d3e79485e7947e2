"""Defines faults that a test can request. Each fault replaces the normal answer to a call."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failed:
    """Answer ``status: failed`` and do nothing."""

    retcode: int = 1200
    wording: str = "refused"


@dataclass(frozen=True, slots=True)
class Async:
    """Carry the call out, answer ``status: async``, and never report its outcome."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Carry the call out and never answer it."""


@dataclass(frozen=True, slots=True)
class Late:
    """Carry the call out at once and answer it after some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Abort:
    """Cut the connection instead of answering. ``done``: whether the call is carried out first."""

    done: bool = True


Answer = Failed | Async | Silence | Late | Abort
