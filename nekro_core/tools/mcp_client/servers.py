"""Starts, replaces and ends MCP servers as ``mcp.json`` says, while the bot runs."""

import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.system.atomic_files import write_whole
from nekro_core.system.background_tasks import background_tasks
from nekro_core.tools.mcp_client.configuration import (
    McpConfig,
    McpConfigError,
    McpServerConfig,
    read_configuration,
)
from nekro_core.tools.mcp_client.settings import McpSettings
from nekro_core.tools.mcp_client.state import McpServerPhase, McpServerState
from nekro_core.tools.tool import Tool

CONFIG_FILE = "mcp.json"
STATE_FILE = "mcp_state.json"
"""Both files are in the data folder. The bot writes ``mcp_state.json`` for `nekro mcp servers`."""

Offer = Callable[[str, Iterable[Tool]], Callable[[], None]]
"""The type of `PluginRegistry.offer`."""


class McpServers:
    """The servers that the file lists. Made by `open`."""

    def __init__(
        self,
        data_dir: Path,
        offer: Offer,
        settings: McpSettings,
        environment: Mapping[str, str],
        tasks: TaskGroup,
    ) -> None:
        self._file = data_dir / CONFIG_FILE
        self._state_file = data_dir / STATE_FILE
        self._offer = offer
        self._settings = settings
        self._environment = environment
        self._tasks = tasks
        self._running: dict[str, _Running] = {}
        self._states: dict[str, McpServerState] = {}
        self._seen: tuple[int, int] | None = None
        self._written = self._state_file.exists()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        data_dir: Path,
        offer: Offer,
        settings: McpSettings | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> AsyncIterator[Self]:
        """Start the servers in the folder's ``mcp.json``, and follow changes of this file.
        ``${NAME}`` in it is replaced by the value in ``environment``. Does not wait until the
        servers have started. At the end of the block, all servers are ended. A server's problem is
        logged and shown in its state."""
        async with background_tasks() as tasks:
            servers = cls(data_dir, offer, settings or McpSettings(), environment, tasks)
            tasks.start_soon(servers.follow, name="MCP servers")
            yield servers

    def states(self) -> tuple[McpServerState, ...]:
        """Get the states of all servers that the file lists."""
        return tuple(self._states.values())

    async def follow(self) -> None:
        """Read and apply the file whenever it changes. Runs until cancelled."""
        while True:
            stamp = _stamp(self._file)  # takes only microseconds
            if stamp != self._seen:
                self._seen = stamp
                await self._apply(await anyio.to_thread.run_sync(self._read))
            await anyio.sleep(self._settings.look_s)

    def _read(self) -> McpConfig | None:
        try:
            text = self._file.read_text("utf-8")
        except FileNotFoundError:
            return McpConfig()
        except (OSError, UnicodeDecodeError) as error:
            logger.error("{} cannot be read: {}", CONFIG_FILE, error)
            return None
        try:
            return read_configuration(text, self._environment)
        except McpConfigError as error:
            logger.error("{}: {}; the servers stay as they are", CONFIG_FILE, error)
            return None

    async def _apply(self, wanted: McpConfig | None) -> None:
        if wanted is None:
            return
        servers = {each.name: each for each in wanted.servers}
        for name in [*self._running]:
            if servers.get(name) != self._running[name].server:
                await self._running.pop(name).end()
                self._states.pop(name, None)
        for name in [*self._states]:
            if name not in servers:
                del self._states[name]
        for name, reason in wanted.wrong.items():
            logger.error("{}: {}: {}", CONFIG_FILE, name, reason)
            self._states[name] = McpServerState(name, McpServerPhase.WRONG, reason=reason)
        for server in servers.values():
            if server.name not in self._running:
                await self._start(server)
        if self._states or self._written:
            self._write_states()

    async def _start(self, server: McpServerConfig) -> None:
        try:
            # The package mcp takes a second to import: import it in a thread, and only if there is
            # a server.
            load = partial(import_module, "nekro_core.tools.mcp_client.connection")
            made: Any = await anyio.to_thread.run_sync(load)
            described: Any = import_module("nekro_core.tools.mcp_client.conversion")
        except ImportError as error:
            reason = f'{error.name or error} is missing: pip install "nekro-core[mcp]"'
            logger.error("MCP server {}: {}", server.name, reason)
            self._states[server.name] = McpServerState(
                server.name, McpServerPhase.WRONG, server.place, 0, reason
            )
            return
        module = described.module_of(server.name, {each.module for each in self._running.values()})
        running = _Running(server, module)
        connection = made.McpConnection(
            server,
            module,
            self._settings,
            offer=lambda tools: running.offered(self._offer(f"mcp.{module}", tools)),
            tell=lambda state: self._told(running, state),
        )
        self._running[server.name] = running
        self._tasks.start_soon(running.run, connection.run, name=f"MCP server {server.name}")

    def _told(self, running: "_Running", state: McpServerState) -> None:
        if self._running.get(state.name) is running:
            self._states[state.name] = state
            self._write_states()

    def _write_states(self) -> None:
        self._written = True
        try:
            lines = [asdict(state) for state in self._states.values()]
            text = json.dumps(lines, ensure_ascii=False, indent=1)
            write_whole(self._state_file, text.encode())
        except OSError as error:
            logger.error("{} cannot be written: {}", STATE_FILE, error)


class _Running:
    """The task of a running server, and the function that withdraws its tools."""

    def __init__(self, server: McpServerConfig, module: str) -> None:
        self.server = server
        self.module = module
        self._scope = anyio.CancelScope()
        self._over = anyio.Event()
        self._withdraw: Callable[[], None] = lambda: None

    def offered(self, withdraw: Callable[[], None]) -> None:
        """Store the function that withdraws the offered tools."""
        self._withdraw = withdraw

    async def run(self, connect: Callable[[], Any]) -> None:
        """Run the connection until `end` is called."""
        try:
            with self._scope:
                await connect()
        finally:
            self._withdraw()
            self._over.set()

    async def end(self) -> None:
        """End the task, and wait until the server's process has ended."""
        self._scope.cancel()
        await self._over.wait()


def read_states(data_dir: Path) -> list[Mapping[str, Any]]:
    """Read the servers' states from the file that the bot last wrote."""
    try:
        found: list[Mapping[str, Any]] = json.loads((data_dir / STATE_FILE).read_text("utf-8"))
    except FileNotFoundError:
        return []
    return found


def server_status_lines(data_dir: Path) -> str:
    """Describe the state that the bot last wrote for each server, in lines for the operator."""
    states = read_states(data_dir)
    if not states:
        return f"there are no MCP servers; they are named in {data_dir / CONFIG_FILE}"
    lines = []
    for each in states:
        tools = f", {each['tools']} tools" if each["phase"] == McpServerPhase.READY else ""
        why = f": {each['reason']}" if each["reason"] else ""
        lines.append(f"{each['name']}  {each['phase']}{tools}{why}  ({each['place']})")
    return "\n".join(lines)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, -1)
    return (status.st_mtime_ns, status.st_size)
