"""Reads from the kernel the processes of a tree, their memory and processor time."""

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_MOST = 4096  # processes that are read: no box may have as many


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """Memory (anonymous and shared pages, page tables) and processor seconds of a tree."""

    memory_bytes: int
    processor_s: float


def children(pid: int) -> list[int]:
    """The direct children of all threads of a process; none if the process has ended."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                listed = (thread / "children").read_bytes()
                found += map(int, listed.split())
    return found


def descendants(pid: int) -> list[int]:
    """A process and all its descendants."""
    found = [pid]
    for one in found:
        if len(found) > _MOST:
            break
        found += children(one)
    return found


def with_inner_pid(pids: Iterable[int], inner: int) -> int | None:
    """The one of these processes whose number in its innermost namespace is ``inner``."""
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            status = Path(f"/proc/{pid}/status").read_bytes()
            place = status.index(b"NSpid:")
            if int(status[place:].split(b"\n", 1)[0].split()[-1]) == inner:
                return pid
    return None


def usage(pids: Iterable[int]) -> TreeUsage:
    """The sum over processes. Pages that a fork shares count once for each process."""
    memory = 0
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            status = Path(f"/proc/{pid}/status").read_bytes()
            memory += _kilobytes(status, b"\nRssAnon:", b"\nRssShmem:", b"\nVmPTE:")
            # The name may hold spaces and brackets; the numbers start after the last bracket.
            numbers = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            ticks += sum(map(int, numbers[11:15]))
    return TreeUsage(memory, ticks / _TICKS)


def proportional_memory(pids: Iterable[int]) -> int:
    """The memory of these processes in bytes. A page that several map counts proportionally.

    The kernel walks every page for it: 10 ms for 2 GB. If it refuses this for a process, all pages
    of that process count. Blocks; call it in a worker thread.
    """
    memory = 0
    for pid in pids:
        try:
            told = Path(f"/proc/{pid}/smaps_rollup").read_bytes()
            memory += _kilobytes(told, b"\nPss_Anon:", b"\nPss_Shmem:")
        except PermissionError:
            memory += usage([pid]).memory_bytes
        except OSError:
            pass  # it ended
    return memory


def descriptors(pids: Iterable[int], unknown: int) -> int:
    """Number of open descriptors. A process that cannot be read counts as ``unknown``."""
    found = 0
    for pid in pids:
        try:
            # Since Linux 6.2 this is the size. Before, the size is 0 and the descriptors are
            # listed.
            folder = Path(f"/proc/{pid}/fd")
            found += folder.stat().st_size or sum(1 for _ in folder.iterdir())
        except PermissionError:
            found += unknown
        except OSError:
            pass  # it ended
    return found


def _kilobytes(told: bytes, *fields: bytes) -> int:
    """The sum of some fields of a kernel file, in bytes."""
    found = 0
    for field in fields:
        place = told.find(field)
        if place >= 0:
            found += int(told[place + len(field) :].split(None, 1)[0]) * 1024
    return found


def real_user_ids(pids: Iterable[int]) -> set[int]:
    """Every user id (real, effective, saved, file system) that any of the processes has."""
    found: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("Uid:"):
                    found |= set(map(int, line.split()[1:]))
    return found
