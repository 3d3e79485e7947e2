"""Finds ports on which the programs of tests listen."""

import random
import socket

PORTS = range(20_000, 30_000)
"""Linux takes the ports of connections, and of listeners that ask for any port, from 32768 up. If a
program got such a port and listened on it a second later, or again after a restart, another test
could have it by then."""
_TRIES = 1000


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens, and which nobody else gets by asking for any
    port. Raises `OSError` if none is found."""
    chance = random.SystemRandom()
    for _ in range(_TRIES):
        port = chance.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError(f"{_TRIES} ports from {PORTS[0]} to {PORTS[-1]} are in use")
