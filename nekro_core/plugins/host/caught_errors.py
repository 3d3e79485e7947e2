"""Records the exceptions that occur in a plugin's own code during its import, also those that the
code catches."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

_MOST = 100


@dataclass(frozen=True, slots=True)
class CaughtError:
    """An exception. ``kind`` is its class, and ``where`` the ``file:line`` of the plugin's code in
    which it occurred first."""

    kind: type[BaseException]
    message: str
    where: str

    def __str__(self) -> str:
        return f"{self.kind.__name__}: {self.message}"


@contextmanager
def recorded_errors(is_own: Callable[[str], bool]) -> Iterator[list[CaughtError]]:
    """While the block is open, record the first 100 exceptions that occur in this thread in code of
    files for which ``is_own`` returns True. In the block, code is several times slower. So use this
    only to repeat an import that has failed."""
    found: list[CaughtError] = []
    seen: list[BaseException] = []
    before = sys.gettrace()

    def meet(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "exception" and len(found) < _MOST:
            kind, error, _ = argument
            # The trace function is called again for each frame that the exception passes.
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
    """Return the exceptions that are probably the reason why a module is not complete: at most
    three failed imports or, if there are none, the last exception."""
    imports = [each for each in found if issubclass(each.kind, ImportError)]
    return imports[:3] or found[-1:]
