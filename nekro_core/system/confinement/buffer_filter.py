"""A second filter of system calls, for runs and commands alone: it keeps what sockets and pipes
hold where `guest.guest_socket_memory` counts on it.

The agent and its steward go without: their archives pass by ``sendfile`` and through wide buffers
(500 MB/s instead of 1,000 without). Stacked on a box's own filter by `guest.guest_confinement`.
"""

import errno

from nekro_core.system.confinement.bpf import ALLOW, EQUAL, ERRNO, GIVE, LOAD, MACHINES, op, program

_SOL_SOCKET = 1
_BUFFER_SIZES = (7, 8, 32, 33)  # SO_SNDBUF, SO_RCVBUF, and both with FORCE
_SETSOCKOPT = (54, 208)

# What lends pages of files or of memory to pipes and sockets, for x86_64 and aarch64. A page stays
# whole as long as a byte of it waits somewhere, and nothing counts more than that byte.
_LENDING = {"splice": (275, 76), "tee": (276, 77), "vmsplice": (278, 75), "sendfile": (40, 71)}


def build_buffer_filter(machine: str) -> bytes:
    """The program for a processor. Programs that ask for larger buffers are told that they have
    them, as the kernel does itself beyond its limit; those that would lend pages are told that
    these files cannot, and read and write. Raises `KeyError` for one not in `MACHINES`."""
    column = {name: place for place, name in enumerate(MACHINES)}[machine]
    rules: list[bytes] = []
    for numbers in _LENDING.values():
        rules += [op(EQUAL, numbers[column], 0, 1), op(GIVE, ERRNO | errno.EINVAL)]
    last = len(_BUFFER_SIZES) - 1
    sizes = [
        op(EQUAL, value, last - place, 1 if place == last else 0)
        for place, value in enumerate(_BUFFER_SIZES)
    ]
    body = [op(LOAD, 16 + 8 * 2), *sizes, op(GIVE, ERRNO | 0)]
    body = [op(LOAD, 16 + 8), op(EQUAL, _SOL_SOCKET, 0, len(body)), *body, op(GIVE, ALLOW)]
    rules += [op(EQUAL, _SETSOCKOPT[column], 0, len(body)), *body]
    return program(machine, rules, otherwise=ALLOW)
