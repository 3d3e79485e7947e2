"""What the API can do instead of answering properly."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Failed:
    """A clear no: ``429`` has ``{"retry_after": 1}`` as its parameters."""

    code: int = 400
    description: str = "Bad Request: chat not found"
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Silence:
    """It is done, and nobody is told."""


@dataclass(frozen=True)
class Late:
    """It is done, and told after so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Abort:
    """The connection ends; ``done`` says whether it was carried out before."""

    done: bool = True


Answer = Failed | Silence | Late | Abort
