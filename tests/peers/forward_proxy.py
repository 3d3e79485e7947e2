"""An HTTP proxy on this machine. It records the requests. Whatever address is requested, it
connects to one port of 127.0.0.1."""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PIECE = 65_536


class _Forwarding(BaseHTTPRequestHandler):
    def do_CONNECT(self) -> None:
        self._note()
        with socket.create_connection(("127.0.0.1", self.server.target)) as there:  # type: ignore[attr-defined]
            self.send_response(200)
            self.end_headers()
            here = self.connection
            while True:
                for ready in select.select([here, there], [], [])[0]:
                    piece = ready.recv(_PIECE)
                    if not piece:
                        self.close_connection = True
                        return
                    (there if ready is here else here).sendall(piece)

    def do_GET(self) -> None:
        self._note()
        self.send_response(200)
        self.send_header("Content-Length", "9")
        self.end_headers()
        self.wfile.write(b"forwarded")

    def _note(self) -> None:
        asked = f"{self.command} {self.path} for {self.headers['Host']}"
        self.server.asked.append(asked)  # type: ignore[attr-defined]

    def log_message(self, *_: object) -> None: ...


class ForwardProxy:
    """The running proxy: its address, and lines ``METHOD target for Host``."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.address = f"http://127.0.0.1:{server.server_port}"
        self.asked: list[str] = []
        server.asked = self.asked  # type: ignore[attr-defined]


@contextmanager
def forward_proxy(target: int) -> Iterator[ForwardProxy]:
    """Run a proxy whose tunnels lead to the port ``target``. Plain requests are answered
    ``forwarded``."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Forwarding) as server:
        server.target = target  # type: ignore[attr-defined]
        found = ForwardProxy(server)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
