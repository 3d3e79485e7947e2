"""Runs in the process of `nekro_core.media.fork_server`, which has loaded its libraries and forks a
child for each file.

The process reads the bot's requests and passes the open files to its children without reading them.
So when it forks a child, its memory contains no content of earlier files.
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
"""After this many seconds without a request the process ends, because even an idle process needs 30
MB."""
MOST_REQUEST = 16 * 1024
_PIECE = 1024 * 1024

Handle = Callable[[dict[str, Any], bytes], Answer]


def serve(handle: Handle, *, idle_s: float = IDLE_S) -> None:
    """Answer requests until the process was idle for ``idle_s`` or the bot closes the socket.

    All that ``handle`` needs must be loaded already. Standard input is the socket to the bot. Each
    request has a JSON text and two descriptors: the file to read, and a pipe for the answer.
    """
    line = socket.socket(fileno=os.dup(0))
    confine_parent(memory=MEMORY)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps ended children
    # After Ctrl+C in a terminal, the bot ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getpid()
    while True:
        try:
            words, files, _, _ = socket.recv_fds(line, MOST_REQUEST, 2)
        except TimeoutError:
            if _has_children():
                continue  # Children are still at work, and would end with this process.
            return
        if len(files) != 2:  # the bot has closed the socket
            return
        if not os.fork():
            line.close()
            _work(handle, json.loads(words), files[0], files[1], parent)
        for file in files:
            os.close(file)
        line.send(b"+")
        line.settimeout(idle_s)  # Set this limit after the first request, which may come late.


def _has_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def _work(
    handle: Handle, request: dict[str, Any], source: int, target: int, parent: int
) -> NoReturn:
    """In the child: read the file, confine the process, answer, and end."""
    try:
        die_with_parent()
        if os.getppid() == parent:
            seconds = request["seconds"]
            set_rlimit(resource.RLIMIT_CPU, seconds)
            # Set a timer that ends the child. The system call filter, which is set below, keeps the
            # child from changing the timer.
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
