"""Reads from the kernel the descendants of a process, their memory and their processor time."""

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PART = 65536
_MOST = 4096  # Maximum number of processes that are read. A box has fewer.


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """Memory (anonymous and shared pages, page tables) and processor seconds of some processes."""

    memory_bytes: int
    processor_s: float


def children(pid: int) -> list[int]:
    """Return the direct children of all threads of a process; empty if the process has ended."""
    found: list[int] = []
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/task") as threads:
        for thread in threads:
            with contextlib.suppress(OSError):
                found += map(int, _read(f"{thread.path}/children").split())
    return found


def descendants(pid: int) -> list[int]:
    """Return the ids of a process and all its descendants."""
    found = [pid]
    for one in found:
        if len(found) > _MOST:
            break
        found += children(one)
    return found


def with_inner_pid(pids: Iterable[int], inner: int) -> int | None:
    """Return which of these processes has the id ``inner`` in its innermost PID namespace, or
    None."""
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            status = _read(f"/proc/{pid}/status")
            place = status.index(b"NSpid:")
            if int(status[place:].split(b"\n", 1)[0].split()[-1]) == inner:
                return pid
    return None


def usage(pids: Iterable[int]) -> TreeUsage:
    """Return the sums for these processes. A page that forked processes share counts for each of
    them."""
    memory = 0
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            status = _read(f"/proc/{pid}/status")
            memory += _kilobytes(status, b"\nRssAnon:", b"\nRssShmem:", b"\nVmPTE:")
            # The process name may have spaces and brackets. The numbers start after the last ")".
            numbers = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
            ticks += sum(map(int, numbers[11:15]))
    return TreeUsage(memory, ticks / _TICKS)


def proportional_memory(pids: Iterable[int]) -> int:
    """Return the memory of these processes in bytes. A page that N processes map counts 1/N for
    each of them.

    The kernel visits every page for this: 10 ms for 2 GB. If the kernel refuses access to a
    process, all its pages count fully. The call blocks; make it in a worker thread.
    """
    memory = 0
    for pid in pids:
        try:
            told = _read(f"/proc/{pid}/smaps_rollup")
            memory += _kilobytes(told, b"\nPss_Anon:", b"\nPss_Shmem:")
        except PermissionError:
            memory += usage([pid]).memory_bytes
        except OSError:
            pass  # The process has ended.
    return memory


def descriptors(pids: Iterable[int], unknown: int) -> int:
    """Return the number of open descriptors of these processes. If the kernel refuses access to a
    process, ``unknown`` is added."""
    found = 0
    for pid in pids:
        try:
            # Since Linux 6.2 the size of the folder is this number. In older kernels the size is 0,
            # and the descriptors have to be listed.
            folder = Path(f"/proc/{pid}/fd")
            found += folder.stat().st_size or sum(1 for _ in folder.iterdir())
        except PermissionError:
            found += unknown
        except OSError:
            pass  # The process has ended.
    return found


def _read(path: str) -> bytes:
    """Return a ``/proc`` file of any length. Raises `OSError`. `Path.read_bytes` takes 20 µs
    instead of 8, and the watchdog reads these files of each process of a busy box ten times a
    second."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = part = os.read(file, _PART)
        while part:
            part = os.read(file, _PART)
            found += part
        return found
    finally:
        os.close(file)


def _kilobytes(told: bytes, *fields: bytes) -> int:
    """Return the sum of some fields of a ``/proc`` file, in bytes. The file has the fields in
    kB."""
    found = 0
    for field in fields:
        place = told.find(field)
        if place >= 0:
            found += int(told[place + len(field) :].split(None, 1)[0]) * 1024
    return found


def real_user_ids(pids: Iterable[int]) -> set[int]:
    """Return all user ids (real, effective, saved, file system) of these processes."""
    found: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("Uid:"):
                    found |= set(map(int, line.split()[1:]))
    return found
