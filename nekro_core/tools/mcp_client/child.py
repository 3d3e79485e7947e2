"""Runs an MCP server as a child process, and exchanges lines of JSON over its stdin and stdout.

`mcp.client.stdio` does the same, but has no limits: a line without an end would fill the memory.
The server gets a few environment variables that every program needs, and the variables of its
configuration.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio
"""

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress

import anyio
from anyio.abc import Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from loguru import logger
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from nekro_core.system.child_processes import tolerate_exit
from nekro_core.tools.mcp_client.configuration import McpServerConfig
from nekro_core.tools.mcp_client.depth_limit import limit_depth

_END_S = 0.5
"""A server must end within this many seconds after its stdin was closed. After SIGTERM it gets this
time again."""
_LOGGED_LINES = 200
_LOGGED_CHARS = 500

Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


@asynccontextmanager
async def child_process(
    server: McpServerConfig, max_bytes: int, ended: Callable[[], None]
) -> AsyncIterator[Streams]:
    """Start the server. At the end of the block, the server and all processes that it started are
    ended. If the server dies, or writes a line of more than ``max_bytes`` bytes, the stream of its
    messages ends and ``ended`` is called. Raises `OSError`."""
    process = await anyio.open_process(
        [server.command, *server.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**get_default_environment(), **server.env},
        cwd=server.cwd or None,
        start_new_session=True,
    )
    tolerate_exit(process)
    incoming, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks, messages, outgoing:
            tasks.start_soon(_read, process, incoming, server.name, max_bytes, ended)
            tasks.start_soon(_write, process, sent, incoming)
            tasks.start_soon(_log, process, server)
            try:
                yield messages, outgoing
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process)
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await process.aclose()


async def _read(
    process: Process,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    name: str,
    max_bytes: int,
    ended: Callable[[], None],
) -> None:
    assert process.stdout is not None
    pieces: list[bytes] = []
    length = 0
    async with incoming:
        with ExitStack() as stack, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            stack.callback(ended)
            async for chunk in process.stdout:
                *whole, rest = chunk.split(b"\n")
                for line in whole:
                    pieces.append(line)
                    if message := _message(b"".join(pieces), name):
                        await incoming.send(message)
                    pieces, length = [], 0
                pieces.append(rest)
                length += len(rest)
                if length > max_bytes:
                    logger.error("MCP server {}: it sent a line of over {} bytes", name, max_bytes)
                    return


def _message(line: bytes, name: str) -> SessionMessage | None:
    """Parse the message in a line. Servers also print lines that are not messages. For such a line,
    the result is None."""
    if not line.strip():
        return None
    try:
        return SessionMessage(
            jsonrpc_message_adapter.validate_json(limit_depth(line), by_name=False)
        )
    except ValueError:
        logger.debug("MCP server {}: a line on its stdout is no message", name)
        return None


async def _write(
    process: Process,
    sent: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    assert process.stdin is not None
    async with sent:
        try:
            async for each in sent:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(f"{text}\n".encode())
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            # The server no longer reads. End the stream of its messages, so that callers do not
            # wait for ever.
            await incoming.aclose()


async def _log(process: Process, server: McpServerConfig) -> None:
    """Log the server's stderr for the operator, up to a limit."""
    assert process.stderr is not None
    lines = 0
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for chunk in process.stderr:
            for line in chunk.decode(errors="replace").splitlines():
                lines += 1
                if lines <= _LOGGED_LINES and line.strip():
                    told = server.without_secrets(line.strip())[:_LOGGED_CHARS]
                    logger.debug("MCP server {}: {}", server.name, told)


async def _end(process: Process) -> None:
    if process.stdin is not None:
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.aclose()
    for number in (signal.SIGTERM, signal.SIGKILL):
        if await _gone(process):
            break
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
    await _gone(process)
    # Also end the processes that the server started.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _gone(process: Process) -> bool:
    # process.wait() is not used, because it also waits for the pipes, which a child of the server
    # may hold open.
    with anyio.move_on_after(_END_S):
        while process.returncode is None:  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(0.01)
    return process.returncode is not None
