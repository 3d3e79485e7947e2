"""Tries in a child process what a compromised decoder could do on this machine. `nekro doctor` uses
it."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nekro_core.media.child import Answer, serve_once
from nekro_core.media.confined_process import run_confined

_FILE = "/etc/passwd"


async def unconfined_abilities() -> list[str]:
    """Return what a compromised decoder could do, in words; an empty list if the confinement is
    complete. Raises `MediaError`."""
    fields, _ = await run_confined("nekro_core.media.self_check", {}, b"")
    done = fields.get("done")
    return [str(each) for each in done] if isinstance(done, list) else ["anything"]


def _read_a_file() -> None:
    Path(_FILE).read_bytes()


def _use_the_network() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.connect(("127.0.0.1", 9))


def _start_a_process() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)


def _signal_the_bot() -> None:
    os.kill(os.getppid(), 0)


def _deeds() -> dict[str, Callable[[], None]]:
    return {
        "read files": _read_a_file,
        "use the network": _use_the_network,
        "start processes": _start_a_process,
        "signal other processes": _signal_the_bot,
    }


def _try_all(_: bytes) -> Answer:
    done = []
    for name, deed in _deeds().items():
        try:
            deed()
        except OSError:
            continue
        done.append(name)
    return {"done": done}, b""


def _prepare(_: dict[str, Any]) -> Callable[[bytes], Answer]:
    return _try_all


if __name__ == "__main__":
    serve_once(_prepare)
