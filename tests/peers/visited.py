"""A web server on this machine that answers ``well`` and records the requested paths. A path that
ends with ``/to/<address>`` redirects to the address."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.visits.append(self.path)  # type: ignore[attr-defined]
        moved = self.path.partition("/to/")[2]
        self.send_response(302 if moved else 200)
        if moved:
            self.send_header("Location", moved)
        self.send_header("Content-Length", "0" if moved else "4")
        self.end_headers()
        self.wfile.write(b"" if moved else b"well")

    def log_message(self, *_: object) -> None: ...


class Visited:
    """The running server: its port and the paths that were requested."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.port = server.server_port
        self.visits: list[str] = []
        server.visits = self.visits  # type: ignore[attr-defined]


@contextmanager
def visited() -> Iterator[Visited]:
    """Run the server on a free port of all addresses while the context is open."""
    with ThreadingHTTPServer(("0.0.0.0", 0), _Pages) as server:
        found = Visited(server)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


def own_address() -> str:
    """The address at which other machines reach this machine. Without a network, this is a loopback
    address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # connecting a UDP socket sends nothing
        except OSError:
            return "127.0.0.2"
        return str(probe.getsockname()[0])
