"""Lists the processes of the box as a tree, and kills some of them."""

from __future__ import annotations

import os
from _signal import SIGCONT, SIGKILL, SIGSTOP

from guest_minimal_stdlib import suppress

TYPE_CHECKING = False  # `typing` costs 4 ms of a cold start
if TYPE_CHECKING:
    from collections.abc import Callable

    Table = dict[int, tuple[int, bytes]]

_PLAIN_PASSES = 3
_LINKS = 2
"""Of a folder in ``/proc``, beside one for each that is in it."""


def table() -> Table:
    """The parent and the state of every process, but of those that came in from outside: the
    supervisor, and what an engine started beside it. They have no parent here, which orphans do."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                file = os.open(f"/proc/{name}/stat", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    line = os.read(file, 1024)
                finally:
                    os.close(file)
                # The name may hold spaces and brackets: what follows the last one is fixed.
                state, parent = line.rpartition(b")")[2].split(None, 2)[:2]
                if parent != b"0":
                    found[int(name)] = (int(parent), state)
    return found


def alone(frozen: int, known: set[int]) -> bool:
    """Whether nobody is here but this process and its children ``known``, one of which is
    ``frozen``: a tenth of what `table` costs. False also where the kernel does not tell.

    The lists may leave out who comes after one that ends while they are read, but then they name
    that one.
    """
    try:
        if os.stat(f"/proc/{frozen}/task").st_nlink != _LINKS + 1 or _children(frozen):
            return False
        return {int(pid) for pid in _children(os.getpid()).split()} <= known
    except (OSError, ValueError):
        return False


def _children(pid: int) -> bytes:
    file = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, 4096)
    finally:
        os.close(file)


def below(listed: Table, root: int) -> set[int]:
    """All descendants of a process; not itself."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in listed.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    waiting = [root]
    while waiting:
        inner = [pid for pid in children.get(waiting.pop(), ()) if pid not in found]
        found.update(inner)
        waiting += inner
    return found


def kill(find: Callable[[Table], set[int]]) -> set[int]:
    """Kill all that ``find`` names, though they fork meanwhile; gives who they were.

    They are stopped until nobody new turns up: what is stopped cannot fork, what is killed makes
    room for another one. Who forks faster than a list is read is caught by stopping everyone at
    once, which the kernel does in one go.
    """
    stopped: set[int] = set()
    for _ in range(_PLAIN_PASSES):
        new = _alive(find) - stopped
        if not new:
            break
        _signal_all(new, SIGSTOP)
        stopped |= new
    else:
        stopped |= _stop_everyone(find)
    _signal_all(stopped, SIGKILL)
    return stopped


def _alive(find: Callable[[Table], set[int]]) -> set[int]:
    listed = table()
    return {pid for pid in find(listed) if listed.get(pid, (0, b"Z"))[1] != b"Z"}


def _stop_everyone(find: Callable[[Table], set[int]]) -> set[int]:
    before = {pid for pid, (_, state) in table().items() if state == b"T"}
    with suppress(ProcessLookupError):
        os.kill(-1, SIGSTOP)
    listed = table()
    found = find(listed)
    _signal_all(set(listed) - found - before - {1, os.getpid()}, SIGCONT)
    return found


def _signal_all(pids: set[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
