"""Binds the bot's port, and writes a file to the data folder so that other processes can find the
bot."""

import errno
import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from nekro_core.store import data_folder_in_use
from nekro_core.system.atomic_files import write_whole
from nekro_core.system.errors import NekroError

INSTANCE_FILE = "running.json"
"""The name of the file with the bot's address. The file exists while a bot runs."""


class InstanceInfo(msgspec.Struct, frozen=True):
    """The address of a running bot, and the token of its HTTP API."""

    pid: int
    port: int
    address: str
    token: str


class PortTaken(NekroError):
    """The address cannot be bound. The text says why and what to set instead."""


def bind_listener(host: str, port: int) -> socket.socket:
    """Open the listening socket. With port 0, the kernel chooses a free port. Raises `PortTaken`.

    The bot calls this before everything else, so that it notices at once if the port is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # Listen at once: two sockets can be bound to one address as long as neither listens.
        listener.listen()
    except OSError as error:
        listener.close()
        raise PortTaken(_why_taken(host, port, error)) from None
    return listener


def _why_taken(host: str, port: int, error: OSError) -> str:
    remedies = {
        errno.EADDRINUSE: "another program holds it: end that one, or set PORT in .env",
        errno.EACCES: "ports below 1024 are root's: set PORT in .env to a higher one",
        errno.EADDRNOTAVAIL: "that is no address of this machine: set HOST in .env",
    }
    remedy = remedies.get(error.errno or 0, f"{error.strerror}: set HOST and PORT in .env")
    return f"cannot listen on {host} port {port}: {remedy}."


@contextmanager
def instance_file(data_dir: Path, host: str, port: int, token: str) -> Iterator[InstanceInfo]:
    """Write the bot's address to a file, for `nekro chat` and scripts. The file is removed when the
    block ends."""
    place = InstanceInfo(pid=os.getpid(), port=port, address=_address(host, port), token=token)
    path = data_dir / INSTANCE_FILE
    # The file contains the token, so other users must never be able to read it. `write_whole`
    # ensures this.
    write_whole(path, msgspec.json.encode(place))
    try:
        yield place
    finally:
        path.unlink(missing_ok=True)


def read_instance_file(data_dir: Path) -> InstanceInfo | None:
    """Read the file of the bot that last used this data folder. Returns None if there is no valid
    file. It is possible that the bot no longer runs: a bot that is killed does not remove its
    file."""
    try:
        return msgspec.json.decode((data_dir / INSTANCE_FILE).read_bytes(), type=InstanceInfo)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def find_running_instance(data_dir: Path) -> InstanceInfo | None:
    """Return the address of the bot that uses this data folder; None if no bot is running and
    ready."""
    place = read_instance_file(data_dir)
    return place if place and data_folder_in_use(data_dir) else None


def _address(host: str, port: int) -> str:
    # If the bot listens on all addresses, use loopback, since programs on this machine read the
    # file.
    if ipaddress.ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
