"""Finds the TCP ports on which this process and its children listen."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

_LISTENING = "0A"
"""The state as ``/proc/net/tcp`` writes it. proc(5)."""
_TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
_SOCKET = re.compile(r"socket:\[(\d+)\]")


def is_own_port(port: int) -> bool:
    """Whether the bot or a process below it listens on this port.

    It reads ``/proc`` each time, so it also knows ports that were opened a moment ago. On a machine
    without ``/proc`` every port counts as the bot's.
    """
    try:
        wanted = set(_listening(port))
        return bool(wanted) and any(wanted & held for held in map(_sockets, _family(os.getpid())))
    except OSError:
        return True


def _listening(port: int) -> Iterator[str]:
    """The inodes of the sockets that listen on a port. Raises `OSError` without IPv4's table."""
    for table in _TABLES:
        path = Path(table)
        if table.endswith("6") and not path.exists():
            continue
        for line in path.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _family(process: int) -> Iterator[int]:
    """A process and all processes below it."""
    yield process
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = tasks.read_text().split()
        except OSError:
            continue  # It ended meanwhile.
        for child in children:
            yield from _family(int(child))


def _sockets(process: int) -> set[str]:
    """The inodes of the sockets that a process has open."""
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
        # It ended, or it gave up its rights. Then its sockets are inherited from its parent.
        return inodes
    return inodes
