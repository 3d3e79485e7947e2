"""Finds the TCP ports on which this process and its children listen."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

_LISTENING = "0A"
"""The state "listening" as ``/proc/net/tcp`` writes it. See proc(5)."""
_TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
_SOCKET = re.compile(r"socket:\[(\d+)\]")


def is_own_port(port: int) -> bool:
    """Return True if the bot or one of its descendant processes listens on this port.

    Each call reads ``/proc``, so it also finds ports that were opened a moment ago. On a machine
    without ``/proc``, this returns True for every port.
    """
    try:
        wanted = set(_listening(port))
        return bool(wanted) and any(wanted & held for held in map(_sockets, _family(os.getpid())))
    except OSError:
        return True


def _listening(port: int) -> Iterator[str]:
    """Yield the inodes of the sockets that listen on a port. Raises `OSError` if the table of IPv4
    cannot be read."""
    for table in _TABLES:
        path = Path(table)
        if table.endswith("6") and not path.exists():
            continue
        for line in path.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _family(process: int) -> Iterator[int]:
    """Yield the ids of a process and of all its descendants."""
    yield process
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = tasks.read_text().split()
        except OSError:
            continue  # The process has ended meanwhile.
        for child in children:
            yield from _family(int(child))


def _sockets(process: int) -> set[str]:
    """Return the inodes of the sockets that a process has open."""
    inodes = set()
    try:
        for entry in os.scandir(f"/proc/{process}/fd"):
            try:
                target = str(Path(entry.path).readlink())
            except OSError:
                continue
            if match := _SOCKET.fullmatch(target):
                inodes.add(match[1])
    except OSError:
        # The descriptors cannot be read, because the process has ended or has given up its rights.
        # In the second case it has inherited its sockets from its parent, and they are found there.
        return inodes
    return inodes
