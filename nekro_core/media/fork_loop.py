"""The process that `nekro_core.media.fork_server` talks to: warm, and forked once for each file.

It reads what the bot says and hands strangers' files on unopened, so that nothing of one is in its
memory when it is forked for the next.
"""

import json
import os
import resource
import signal
import socket
from collections.abc import Callable
from typing import Any, NoReturn

from nekro_core.media.child import Answer, encode_answer
from nekro_core.system.confinement.child import (
    MEMORY,
    confine_parent,
    die_with_parent,
    filter_calls,
    set_rlimit,
)

IDLE_S = 60.0
"""Who has had nothing to do for so long ends: it would hold 30 MB for nothing."""
MOST_REQUEST = 16 * 1024
_PIECE = 1024 * 1024

Handle = Callable[[dict[str, Any], bytes], Answer]


def serve(handle: Handle, *, idle_s: float = IDLE_S) -> None:
    """Answer requests until nobody asks. All that ``handle`` needs must be loaded already.

    Standard input is the line to the bot: of each request it brings the words and two files, the
    one to read and the one to answer into.
    """
    line = socket.socket(fileno=os.dup(0))
    confine_parent(memory=MEMORY)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a child: its answer tells
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's; the bot ends by its own means
    parent = os.getpid()
    while True:
        try:
            words, files, _, _ = socket.recv_fds(line, MOST_REQUEST, 2)
        except TimeoutError:
            if _has_children():
                continue  # they would end with it
            return
        if len(files) != 2:  # the bot is gone
            return
        if not os.fork():
            line.close()
            _work(handle, json.loads(words), files[0], files[1], parent)
        for file in files:
            os.close(file)
        line.send(b"+")
        line.settimeout(idle_s)  # only now: the first request may come late on a busy machine


def _has_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def _work(
    handle: Handle, request: dict[str, Any], source: int, target: int, parent: int
) -> NoReturn:
    """The life of a child."""
    try:
        die_with_parent()
        if os.getppid() == parent:
            seconds = request["seconds"]
            set_rlimit(resource.RLIMIT_CPU, seconds)
            # Once calls are filtered this cannot be put off any more.
            signal.setitimer(signal.ITIMER_REAL, 2 * seconds)
            data = _read(source)
            filter_calls()
            _write(target, encode_answer(lambda: handle(request, data)))
    finally:
        os._exit(0)


def _read(file: int) -> bytes:
    data = bytearray()
    while piece := os.read(file, _PIECE):
        data += piece
    return bytes(data)


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
