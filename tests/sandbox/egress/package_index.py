"""Serves an index of one package on loopback, in the form that pip reads (PEP 503)."""

import base64
import csv
import hashlib
import http.server
import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

FILE = "greeting-1.0-py3-none-any.whl"


def wheel() -> bytes:
    """A wheel with one module."""
    files = {
        "greeting.py": b"HELLO = 'hello from a wheel'\n",
        "greeting-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
        "greeting-1.0.dist-info/WHEEL": (
            b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        writer.writerow((name, f"sha256={digest}", len(data)))
    writer.writerow(("greeting-1.0.dist-info/RECORD", "", ""))
    files["greeting-1.0.dist-info/RECORD"] = rows.getvalue().encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


@contextmanager
def index() -> Iterator[tuple[int, list[str]]]:
    """Serve an index of one package (PEP 503) on loopback. Yields its port and a list that gets the
    requested paths."""
    asked: list[str] = []
    pages = {
        "/simple/greeting/": f'<a href="/files/{FILE}">{FILE}</a>'.encode(),
        f"/files/{FILE}": wheel(),
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            page = pages.get(self.path)
            self.send_response(404 if page is None else 200)
            kind = "text/html" if self.path.endswith("/") else "application/octet-stream"
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(page or b"")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1], asked
        finally:
            server.shutdown()
            thread.join()
