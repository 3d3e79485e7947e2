"""Bounds the memory in sockets of a network namespace, which no process has mapped.

Where a cgroup counts it the kernel keeps it within the box's limit (version 1 leaves TCP out);
elsewhere nobody does. What can be seen without a privilege is how many sockets there are, those
that wait in another one's queue (``SCM_RIGHTS``) included, and what TCP buffers on the whole
machine. So a socket counts with the most that it can hold. The filter of system calls keeps that at
the kernel's default: ``SO_SNDBUF`` changes nothing in a box, and no page is lent to a socket.

Imported by both sides: the jail's watchdog looks from outside, a supervisor that meters itself from
inside. Sources: the kernel's ``net/unix/af_unix.c`` and ``net/ipv4/proc.c``, `man 7 unix`.
"""

from __future__ import annotations

import contextlib

TYPE_CHECKING = False  # `typing` costs 4 ms of a cold start
if TYPE_CHECKING:
    from collections.abc import Iterable

FREE = 64
"""Sockets that count nothing: an interpreter with some workers, and the supervisor's own dozen.
With more than these all count. They hold at most 27 MB."""
_FREE_TCP = 32 * 1024 * 1024
"""That TCP may buffer on the whole machine before anyone looks whose it is."""
_PAGE = 4096
_MESSAGES = 12
"""A datagram socket takes 11 messages of senders that are gone by then (``max_dgram_qlen``), and
has sent as much as one more."""
_DATAGRAM, _LISTENS = b"0002", b"0A"


def socket_memory(net: str) -> int:
    """Bytes that the sockets seen in a folder like ``/proc/self/net`` may hold; 0 for few of them.

    20 µs where there are few, else some for each socket.
    """
    try:
        counts = _counts(f"{net}/sockstat")
        found = _tcp(net, counts.get("TCP mem", 0) * _PAGE)
        if counts.get("sockets used", 0) > FREE:
            found += _others(net, counts)
    except (OSError, ValueError, IndexError):
        return 0  # the box is gone
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
    """Of unix sockets and UDP. The sender's buffer is what bounds the former: it may be full but
    for a byte when one more message of its whole size is let in."""
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
    """Of TCP, whose buffers grow as it likes: at most what it has on the whole machine, where
    this namespace has connections enough with something in them."""
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
    """The last number of a setting of the kernel's, which inside of a box may be covered."""
    if name not in _settings:
        try:
            with open(f"/proc/sys/net/{name}", "rb") as file:
                _settings[name] = int(file.read().split()[-1])
        except (OSError, ValueError, IndexError):
            return otherwise
    return _settings[name]
