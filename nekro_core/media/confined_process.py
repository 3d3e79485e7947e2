"""Runs one child process for each file, so that a process never has the files of two chats."""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import anyio
from anyio.abc import Process

import nekro_core
from nekro_core.media.child_answer import MOST_OUT, read_answer
from nekro_core.media.errors import MediaError, UnusableMedia
from nekro_core.system.child_processes import tolerate_exit
from nekro_core.system.confinement.child import MEMORY

_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


async def run_confined(
    module: str, request: Mapping[str, Any], data: bytes, *, seconds: int = 30
) -> tuple[dict[str, Any], bytes]:
    """Have a child handle ``data``. Return the answer's fields and bytes.

    ``module`` runs as a program in this Python with a minimal environment; it calls `serve_once`.
    The child has ``seconds`` of processor time and twice as much real time. Raises `UnusableMedia`
    (also if the child dies or takes too long), `CodecMissing`, and `MediaError` if no process can
    be started.
    """
    line = json.dumps({**request, "memory": MEMORY, "seconds": seconds}).encode()
    try:
        with anyio.fail_after(2 * seconds):
            answer = await _exchange(module, line + b"\n" + data)
    except TimeoutError:
        raise UnusableMedia(f"it could not be converted within {2 * seconds} s") from None
    except OSError as error:
        raise MediaError(f"no process can be started to convert it: {error}") from error
    return read_answer(answer)


def command(module: str) -> tuple[str, ...]:
    """Return a child's command line. With ``-P``, Python does not import from the working
    folder."""
    return sys.executable, "-P", "-m", module


def environment() -> dict[str, str]:
    """Return a child's environment. The child gets no other environment variable of the bot."""
    root = Path(nekro_core.__file__).parent.parent
    return {"PYTHONPATH": str(root), "PATH": os.defpath, "LANG": "C.UTF-8"}


async def _exchange(module: str, question: bytes) -> bytes:
    process = tolerate_exit(
        await anyio.open_process(
            command(module), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment()
        )
    )
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_ask, process, question)
            answer = await _answer(process)
            await process.wait()
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.aclose()
    return answer if process.returncode == 0 else b""


async def _ask(process: Process, question: bytes) -> None:
    assert process.stdin is not None
    with suppress(*_GONE):  # the child died; `_answer` notices it
        await process.stdin.send(question)
        await process.stdin.aclose()


async def _answer(process: Process) -> bytes:
    assert process.stdout is not None
    answer = bytearray()
    async for piece in process.stdout:
        answer += piece
        if len(answer) > MOST_OUT:
            process.kill()
            break
    return bytes(answer)
