"""Answers requests in a worker process. `nekro_core.system.workers.worker` sends them."""

import json
import os
import select
from collections.abc import Callable
from typing import Any

_IDLE_S = 600.0

Answer = tuple[dict[str, Any], bytes]


def serve(handle: Callable[[dict[str, Any]], Answer], idle_s: float = _IDLE_S) -> None:
    """Answer requests from standard input. Return when the input ends, or when no request has
    arrived for ``idle_s`` seconds."""
    # Text that a library prints must not be mixed with the answers, so it is sent to stderr.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # The input is not buffered, because `select` does not see bytes that are in a buffer.
    source = os.fdopen(os.dup(0), "rb", buffering=0)
    pending = b""
    while True:
        while b"\n" not in pending:
            if not select.select([source], [], [], idle_s)[0]:
                return
            piece = source.read(65_536)
            if not piece:
                return
            pending += piece
        line, pending = pending.split(b"\n", 1)
        fields, data = handle(json.loads(line))
        output.write(json.dumps({**fields, "bytes": len(data)}).encode() + b"\n" + data)
        output.flush()
