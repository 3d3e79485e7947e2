"""Starts the supervisor of a box: the process that starts and ends all code in the box.

`main` is called once per box, and again when an idle supervisor restarts. ``sys.argv`` is LIMITS
CHANNEL [FD_SOCKET]. LIMITS is JSON. CHANNEL is the descriptor of the host's channel, or two
descriptors, ``0,1``, if the channel is a pair of pipes. FD_SOCKET is the descriptor of a socket
(SOCK_SEQPACKET) through which descriptors are passed to the host. Without it, connections are
relayed in frames (`guest_wire`).

Only the supervisor communicates with the host. No untrusted code runs in the supervisor's process.
A run is a forked child, connected to the supervisor by a socket pair. The supervisor checks sizes,
counts calls, collects output up to its limit, and kills processes that remain after a run. The
process of the next run is usually forked in advance. A second process, the executor, does work that
takes long. Orphaned processes of a run become children of the supervisor, because it is process 1
of its PID namespace.
"""

from __future__ import annotations

import os
import sys

import guest_confinement
import guest_wire as wire
from guest_minimal_stdlib import dumps, loads


def _open_channel(told: str) -> wire.BlockingChannel:
    """Open the host's channel. Child processes do not inherit its descriptors."""
    numbers = [int(number) for number in told.split(",")]
    if numbers[0] < 3:
        import fcntl

        numbers = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in numbers]
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        os.close(null)
    for number in numbers:
        os.set_inheritable(number, False)
    return wire.BlockingChannel(numbers[0], numbers[-1])


def main() -> None:
    """Set the limits of this process, send READY, and run the supervisor."""
    if os.getpid() != 1:
        raise SystemExit("the supervisor ends every process that it sees: start it in a box")
    limits = loads(sys.argv[1])
    score = guest_confinement.lower_priority(limits.get("nice", 0))
    guest_confinement.set_dumpable(False)
    os.umask(0o022)
    guest_confinement.set_limits(limits["memory"], limits["processes"], wire.OPEN_FILES)
    if limits.get("packages"):
        sys.path.extend(limits["packages"].split(":"))
    host = _open_channel(sys.argv[2])
    fd_socket = int(sys.argv[3]) if sys.argv[3:] else None
    if fd_socket is not None:
        os.set_inheritable(fd_socket, False)
    ready = {
        "python": ".".join(map(str, sys.version_info[:3])),
        "fd_socket": fd_socket is not None,
        "packages": os.path.exists("/opt/packages/.complete"),
    }
    host.send(wire.READY, 1, dumps(ready).encode())
    # READY has been sent before this import. So the host can continue while most of the
    # supervisor's code is imported.
    import guest_supervisor

    guest_supervisor.serve(limits, host, fd_socket, score)
