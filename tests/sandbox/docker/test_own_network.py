"""The engine of the tests leaves the network of this machine as it is: a developer may run another
engine on it."""

import subprocess
import sys
import tempfile

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.long]

_BESIDE_ANOTHER_ENGINE = """
import fcntl
import socket
import sys
from pathlib import Path

from tests.sandbox.docker.engine import NoEngine, running_engine

SIOCBRADDBR = 0x89A0
try:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCBRADDBR, b"docker0\\0")
    with running_engine(Path(sys.argv[1])):
        pass
except (OSError, NoEngine) as error:
    sys.exit(f"skipped: {error}")
print(*(name for _, name in socket.if_nameindex()))
"""
"""Runs the engine of the tests in a network that has the bridge of another engine, and prints the
names of what the network has afterwards."""


def test_the_bridge_of_another_engine_stays() -> None:
    # The script has a network of its own, so that this machine's is not changed if the test fails.
    command = ["unshare", "--net", sys.executable, "-c", _BESIDE_ANOTHER_ENGINE]
    # The paths of the engine's sockets would be too long in pytest's folder of this test.
    with tempfile.TemporaryDirectory(prefix="nekro-") as folder:
        ended = subprocess.run(
            [*command, f"{folder}/engine"], capture_output=True, text=True, check=False
        )
    if "skipped: " in ended.stderr or "unshare" in ended.stderr:
        pytest.skip(ended.stderr.strip())
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["lo", "docker0"]
