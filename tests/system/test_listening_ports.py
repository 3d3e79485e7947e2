"""The bot's own ports are the ports on which one of its processes listens."""

import socket
import subprocess
import sys

import pytest

from nekro_core.system.listening_ports import is_own_port

LISTEN = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_port_of_this_process_is_an_own_port(family: socket.AddressFamily) -> None:
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with server:
        port = server.getsockname()[1]
        assert is_own_port(port)
    assert not is_own_port(port)


def test_a_port_of_a_child_is_an_own_port() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LISTEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        assert is_own_port(port)
        child.communicate()


def test_a_port_of_another_program_is_not_an_own_port() -> None:
    """The program's parent has ended, as with a daemon. So the program is not a child of this
    process."""
    start = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {LISTEN!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        port = int(parent.stdout.readline())
        parent.wait()
        assert not is_own_port(port)
        with socket.create_connection(("127.0.0.1", port)):
            pass
        assert parent.stdin is not None
        parent.stdin.close()
