"""A fork server whose children behave as if an attacker controlled them. ``deed`` selects the
attack."""

import signal
import threading
from typing import Any

from nekro_core.media.child import Answer
from nekro_core.media.fork_loop import serve
from tests.media import prying_worker

IDLE_S = 0.2
_SEEN: list[str] = []


def handle(request: dict[str, Any], data: bytes) -> Answer:
    match request["deed"]:
        case "remember":
            before = [*_SEEN]
            _SEEN.append(data.decode())
            return {"before": before, "seen": _SEEN}, data
        case "wait":
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        case "put off":
            signal.setitimer(signal.ITIMER_REAL, 1_000)
    prying = prying_worker.Prying()
    return prying.prepare(request)(data)


if __name__ == "__main__":
    serve(handle, idle_s=IDLE_S)
