"""Lists the processes of the box as a tree, and kills some of them."""

from __future__ import annotations

import os
from _signal import SIGCONT, SIGKILL, SIGSTOP

from guest_minimal_stdlib import suppress

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Table = dict[int, tuple[int, bytes]]

_PLAIN_PASSES = 3
_LINKS = 2
"""Number of hard links of an empty folder in ``/proc``. Each folder inside it adds one."""


def table() -> Table:
    """Return the parent and the state of every process that was started in the box.

    The supervisor is left out, and so are processes that a Docker engine started in the container:
    their parents are outside this PID namespace. Orphans are listed; their parent is the
    supervisor."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                file = os.open(f"/proc/{name}/stat", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    line = os.read(file, 1024)
                finally:
                    os.close(file)
                # The process name may have spaces and brackets. The numbers start after the last
                # ")".
                state, parent = line.rpartition(b")")[2].split(None, 2)[:2]
                if parent != b"0":
                    found[int(name)] = (int(parent), state)
    return found


def alone(frozen: int, known: set[int]) -> bool:
    """Return True if two things are so: each child of the supervisor is in ``known``, and the child
    ``frozen`` has one thread and no child. Also returns False if the kernel does not report the
    children.

    This takes a tenth of the time of `table`. If a child ends while the kernel writes the list of
    children, the list may lack the children after it. The list still has the child that ended. So a
    child that is not in ``known`` makes the result False even if it ends meanwhile.
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
    """Return the ids of all descendants of a process, without its own id."""
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
    """Kill all processes that ``find`` returns, even if they fork at the same time. Return their
    ids.

    First the processes are stopped, until no new process appears: a stopped process cannot fork.
    (If they were killed one by one, the remaining processes could fork up to the box's limit of
    processes.) If they fork faster than they can be listed, all processes of the box are stopped
    with one system call, and the processes that ``find`` does not return are resumed.
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
