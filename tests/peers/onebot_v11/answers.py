"""How the peer may be told to answer a call other than by doing it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failed:
    """``status: failed``; nothing was done."""

    retcode: int = 1200
    wording: str = "refused"


@dataclass(frozen=True, slots=True)
class Async:
    """``status: async``: taken, and nobody will ever say what came of it."""


@dataclass(frozen=True, slots=True)
class Silence:
    """The call is done, and never answered."""


@dataclass(frozen=True, slots=True)
class Late:
    """The call is done at once and answered after some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Abort:
    """The connection dies instead of an answer. ``done`` says whether the call was carried out."""

    done: bool = True


Answer = Failed | Async | Silence | Late | Abort
