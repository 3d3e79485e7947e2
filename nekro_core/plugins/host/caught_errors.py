"""Records the exceptions that a plugin's own code meets while it is imported, also those that it
catches."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

_MOST = 100


@dataclass(frozen=True, slots=True)
class CaughtError:
    """An exception as text: ``kind`` is its class, ``where`` the ``file:line`` of the plugin's code
    that met it first."""

    kind: type[BaseException]
    message: str
    where: str

    def __str__(self) -> str:
        return f"{self.kind.__name__}: {self.message}"


@contextmanager
def recorded_errors(is_own: Callable[[str], bool]) -> Iterator[list[CaughtError]]:
    """Record the exceptions in code of files for which ``is_own`` is true, in this thread, the
    first 100. Code is several times slower meanwhile, so this is for an import that is repeated to
    find out why it failed."""
    found: list[CaughtError] = []
    seen: list[BaseException] = []
    before = sys.gettrace()

    def meet(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "exception" and len(found) < _MOST:
            kind, error, _ = argument
            # It passes through each frame up to where it is caught.
            if not any(error is each for each in seen):
                seen.append(error)
                where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                found.append(CaughtError(kind, str(error), where))
        return meet

    def look(frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        if not is_own(frame.f_code.co_filename):
            return None
        frame.f_trace_lines = False
        return meet

    sys.settrace(look)
    try:
        yield found
    finally:
        sys.settrace(before)


def likely_causes(found: list[CaughtError]) -> list[CaughtError]:
    """The exceptions that are probably why a module is not complete: the failed imports, at most
    three, else the last exception."""
    imports = [each for each in found if issubclass(each.kind, ImportError)]
    return imports[:3] or found[-1:]
