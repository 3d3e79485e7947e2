"""Estimates the memory that the sockets of a network namespace hold, which no process has mapped.

If a cgroup counts this memory, the kernel keeps it within the box's limit (cgroup version 1 leaves
TCP out). Otherwise nothing bounds it. An unprivileged process can see how many sockets there are,
with those that wait in another socket's queue (``SCM_RIGHTS``), and how much TCP buffers on the
whole machine. So each socket counts with the most that it can hold. The seccomp filter keeps that
at the kernel's default: ``SO_SNDBUF`` changes nothing in a box, and no page is lent to a socket.

Imported by both sides: the jail's watchdog measures from outside, a supervisor that meters its own
box from inside. Sources: the kernel's ``net/unix/af_unix.c`` and ``net/ipv4/proc.c``, `man 7 unix`.
"""

from __future__ import annotations

import contextlib

TYPE_CHECKING = False  # `typing` costs 4 ms of a cold start
if TYPE_CHECKING:
    from collections.abc import Iterable

FREE = 64
"""Up to this many sockets are not counted: an interpreter with some workers, and the supervisor's
own dozen. They hold at most 27 MB. If there are more, all are counted."""
_FREE_TCP = 32 * 1024 * 1024
"""What TCP may buffer on the whole machine before its connections are counted."""
_PAGE = 4096
_MESSAGES = 12
"""A datagram socket can hold 11 messages whose senders are closed (``max_dgram_qlen``), and may
have sent as much as one more."""
_DATAGRAM, _LISTENS = b"0002", b"0A"


def socket_memory(net: str) -> int:
    """Return the bytes that the sockets in a folder like ``/proc/self/net`` may hold; 0 for few.

    Takes 20 µs if there are few sockets, else a few for each socket.
    """
    try:
        counts = _counts(f"{net}/sockstat")
        found = _tcp(net, counts.get("TCP mem", 0) * _PAGE)
        if counts.get("sockets used", 0) > FREE:
            found += _others(net, counts)
    except (OSError, ValueError, IndexError):
        return 0  # the box has ended
    return found


def _counts(path: str) -> dict[str, int]:
    found = {}
    with open(path, "rb") as file:
        for line in file.read().decode().splitlines():
            name, _, rest = line.partition(": ")
            words = rest.split()
            for key, value in zip(words[::2], words[1::2]):  # noqa: B905 - Python 3.9
                found[f"{name} {key}"] = int(value)
    return found


def _others(net: str, counts: dict[str, int]) -> int:
    """Return the bytes of unix and UDP sockets. A unix socket is bounded by its send buffer: when
    all but one byte of it is full, one more message of the whole size is accepted."""
    with open(f"{net}/unix", "rb") as file:
        kinds = [line.split()[4] for line in file.read().splitlines()[1:]]
    datagram = kinds.count(_DATAGRAM)
    full = 2 * _setting("core/wmem_default", 212_992)
    received = 2 * _setting("core/rmem_default", 212_992)
    with contextlib.suppress(FileNotFoundError):
        counts = {**counts, **_counts(f"{net}/sockstat6")}
    udp = sum(counts.get(f"{name} inuse", 0) for name in ("UDP", "UDPLITE", "UDP6", "UDPLITE6"))
    return (len(kinds) - datagram + datagram * _MESSAGES) * full + udp * received


def _tcp(net: str, machine: int) -> int:
    """Return the bytes of TCP, whose buffers grow by themselves: the maximum of each connection
    that has data queued, but at most what TCP buffers on the whole machine."""
    if machine <= _FREE_TCP:
        return 0
    full = _setting("ipv4/tcp_rmem", 6_291_456) + _setting("ipv4/tcp_wmem", 4_194_304)
    busy = 0
    for name in ("tcp", "tcp6"):
        try:
            with open(f"{net}/{name}", "rb") as file:
                busy += _busy(file.read().splitlines()[1:])
        except FileNotFoundError:
            continue  # no such protocol on this kernel
    return min(machine, busy * full)


def _busy(lines: Iterable[bytes]) -> int:
    found = 0
    for line in lines:
        words = line.split()
        found += words[3] != _LISTENS and words[4].strip(b"0:") != b""
    return found


_settings: dict[str, int] = {}


def _setting(name: str, otherwise: int) -> int:
    """Return the last number of a kernel setting, or ``otherwise``: a box may hide the setting."""
    if name not in _settings:
        try:
            with open(f"/proc/sys/net/{name}", "rb") as file:
                _settings[name] = int(file.read().split()[-1])
        except (OSError, ValueError, IndexError):
            return otherwise
    return _settings[name]
