"""Runs a small model hub and a package index on loopback, with faults that a test can switch on."""

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """The files that are served, the faults, and the requests that were received."""

    hub_file: bytes = b""
    hub_sha256: str = ""
    ranges: bool = True
    break_after: list[int] = field(default_factory=list)
    """For each of the next answers with a file, the number of bytes after which it breaks off."""
    end_after: list[int] = field(default_factory=list)
    """For each of the next answers with a file, the number of bytes that it has. It is a whole
    answer for HTTP."""
    wheels: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    owner: str = "someone"
    """The owner of all repositories of the hub."""
    hold: threading.Event | None = None
    """If set, the hub sends half of a file, and sends the rest after this event."""
    url: str = ""

    def add_wheel(self, distribution: str, version: str, member: str, data: bytes) -> str:
        """Serve a wheel with this one member; returns its SHA-256."""
        name = distribution.replace("-", "_")
        info = f"{name}-{version}.dist-info"
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(member, data)
            archive.writestr(
                f"{info}/METADATA",
                f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n",
            )
            archive.writestr(
                f"{info}/WHEEL",
                "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            )
            archive.writestr(f"{info}/RECORD", "")
        self.wheels[f"{name}-{version}-py3-none-any.whl"] = buffer.getvalue()
        return hashlib.sha256(buffer.getvalue()).hexdigest()


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    """Serve on a free port until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            site.requests.append(f"{self.command} {self.path} {self.headers.get('Range', '')}")

        def do_HEAD(self) -> None:
            if self.path.startswith(f"/{site.owner}/") and site.hub_file:
                self.send_response(302)
                self.send_header("Location", "/storage")
                self.send_header("X-Linked-ETag", f'"{site.hub_sha256}"')
                self.send_header("X-Linked-Size", str(len(site.hub_file)))
            else:
                self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            if "/resolve/main/" in self.path:
                self.do_HEAD()
            elif self.path == "/storage":
                self._send_storage()
            elif self.path.startswith("/simple/"):
                self._send_index(self.path.split("/")[2])
            else:
                self._send(site.wheels[self.path.rpartition("/")[2]])

        def _send_storage(self) -> None:
            asked = self.headers.get("Range", "") if site.ranges else ""
            begin = int(asked.removeprefix("bytes=").rstrip("-") or 0)
            data = site.hub_file[begin:]
            if site.end_after:
                data = data[: site.end_after.pop(0)]
            self.send_response(206 if asked else 200)
            if asked:
                last, size = len(site.hub_file) - 1, len(site.hub_file)
                self.send_header("Content-Range", f"bytes {begin}-{last}/{size}")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if site.break_after:
                self.wfile.write(data[: site.break_after.pop(0)])
                self.wfile.flush()
                self.close_connection = True
                return
            if site.hold is not None:
                self.wfile.write(data[: len(data) // 2])
                self.wfile.flush()
                site.hold.wait(60)
                data = data[len(data) // 2 :]
            with suppress(ConnectionError):  # the client may have hung up
                self.wfile.write(data)

        def _send_index(self, distribution: str) -> None:
            name = distribution.replace("-", "_")
            links = [f'<a href="/files/{file}">{file}</a>' for file in site.wheels]
            links = [link for link in links if f">{name}-" in link]
            if links:
                self._send(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode())
            else:
                self.send_error(404)

        def _send(self, data: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
