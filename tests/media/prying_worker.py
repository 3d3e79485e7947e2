"""A child whose decoder was taken over: it does what ``deed`` says, as machine code could."""

import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from nekro_core.media.confinement import Answer, serve_once


def handle(request: dict[str, Any]) -> Answer:
    match request["deed"]:
        case "read":
            return {"got": Path(request["path"]).read_text()}, b""
        case "list":
            return {"got": [each.name for each in Path(request["path"]).iterdir()]}, b""
        case "write":
            with Path(request["path"]).open("w") as file:
                file.write("here I was")
            return {"got": "written"}, b""
        case "connect":
            with socket.create_connection(("127.0.0.1", request["port"]), 2):
                return {"got": "connected"}, b""
        case "open many":
            return {"got": len([os.pipe() for _ in range(1_000)])}, b""
        case "memory":
            return {"got": len(bytearray(4 * 1024 * 1024 * 1024))}, b""
        case "spin":
            while True:
                pass
        case "sleep":
            time.sleep(60)
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "flood":
            for _ in range(1_000):
                os.write(request["out"], b"x" * 1024 * 1024)
        case "gibberish":
            os.write(request["out"], b"no JSON\nno JSON")
        case "environment":
            return {"got": sorted(os.environ)}, b""
    return {"got": ""}, b""


def prepare(request: dict[str, Any]) -> Any:
    # Where the answer goes: the first that was made, before standard output was turned away.
    request["out"] = 3

    def pry(_: bytes) -> Answer:
        try:
            return handle(request)
        except OSError as error:
            return {"refused": error.strerror or str(error)}, b""

    return pry


if __name__ == "__main__":
    sys.exit(serve_once(prepare))
