"""Estimates the kernel memory in the buffers of a network namespace's sockets.

This memory belongs to no process. If the box has a cgroup, the kernel limits this memory too
(except TCP buffers in cgroup version 1). Without a cgroup, the kernel does not limit it. An
unprivileged process can read only how many sockets there are, including sockets that wait in
another socket's queue (``SCM_RIGHTS``), and the size of all TCP buffers of the whole machine. So
each socket counts with the largest size that its buffers can have. The seccomp filter keeps this
size at the kernel's default: ``SO_SNDBUF`` has no effect, and calls such as ``splice``, which put
whole pages into a socket, fail.

The jail's watchdog uses this module outside a box, and a supervisor that measures its own box uses
it inside. Sources: the kernel's ``net/unix/af_unix.c`` and ``net/ipv4/proc.c``, `man 7 unix`.
"""

from __future__ import annotations

import contextlib

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

FREE = 64
"""Unix and UDP sockets are counted only if a box has more sockets than this. An interpreter with
some workers needs fewer, and the supervisor has a dozen. This number of sockets holds at most
27 MB."""
_FREE_TCP = 32 * 1024 * 1024
"""TCP connections are counted only if the TCP buffers of the whole machine are larger than this."""
_PAGE = 4096
_MESSAGES = 12
"""How many full send buffers a datagram socket counts as. The queue of such a socket
can hold 11 messages (``max_dgram_qlen``). If their senders are closed, no other socket counts for
them. The twelfth is the send buffer of the socket itself."""
_DATAGRAM, _LISTENS = b"0002", b"0A"


def socket_memory(net: str) -> int:
    """Return how many bytes the sockets of a network namespace may hold. ``net`` is a folder such
    as ``/proc/self/net``. Unix and UDP sockets count only if there are more than `FREE` sockets,
    and TCP connections only if the machine's TCP buffers are larger than `_FREE_TCP`.

    This takes 20 µs if there are few sockets, and otherwise a few µs for each socket.
    """
    try:
        counts = _counts(f"{net}/sockstat")
        found = _tcp(net, counts.get("TCP mem", 0) * _PAGE)
        if counts.get("sockets used", 0) > FREE:
            found += _others(net, counts)
    except (OSError, ValueError, IndexError):
        return 0  # The box has ended, so its files in /proc are gone.
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
    """Return the bytes of unix and UDP sockets. A unix socket may hold twice its send buffer,
    because the kernel accepts a message of full size while one byte of the buffer is free."""
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
    """Return the bytes of TCP connections. The kernel makes their buffers larger when needed. So
    each connection with queued data counts with the largest size, but the sum is at most the size
    of all TCP buffers of the machine."""
    if machine <= _FREE_TCP:
        return 0
    full = _setting("ipv4/tcp_rmem", 6_291_456) + _setting("ipv4/tcp_wmem", 4_194_304)
    busy = 0
    for name in ("tcp", "tcp6"):
        try:
            with open(f"{net}/{name}", "rb") as file:
                busy += _busy(file.read().splitlines()[1:])
        except FileNotFoundError:
            continue  # This kernel does not have the protocol.
    return min(machine, busy * full)


def _busy(lines: Iterable[bytes]) -> int:
    found = 0
    for line in lines:
        words = line.split()
        found += words[3] != _LISTENS and words[4].strip(b"0:") != b""
    return found


_settings: dict[str, int] = {}


def _setting(name: str, otherwise: int) -> int:
    """Return the last number of a kernel setting, or ``otherwise`` if the setting cannot be read.
    Inside a box it may be hidden."""
    if name not in _settings:
        try:
            with open(f"/proc/sys/net/{name}", "rb") as file:
                _settings[name] = int(file.read().split()[-1])
        except (OSError, ValueError, IndexError):
            return otherwise
    return _settings[name]
