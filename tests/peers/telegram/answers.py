"""Defines faults that a test can request. Each fault replaces the normal answer to a call."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Failed:
    """Refuse the call. A ``code`` of 429 has for example the parameters ``{"retry_after": 1}``."""

    code: int = 400
    description: str = "Bad Request: chat not found"
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Silence:
    """Carry the call out and never answer it."""


@dataclass(frozen=True)
class Late:
    """Carry the call out at once and answer it after some seconds."""

    seconds: float


@dataclass(frozen=True)
class Abort:
    """Cut the connection instead of answering. ``done``: whether the call is carried out first."""

    done: bool = True


Answer = Failed | Silence | Late | Abort
