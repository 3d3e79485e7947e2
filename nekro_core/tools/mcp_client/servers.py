"""Starts, replaces and ends MCP servers as ``mcp.json`` says, while the bot runs."""

import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from loguru import logger
from pydantic import SecretStr

from nekro_core.system.atomic_files import write_whole
from nekro_core.system.background_tasks import background_tasks
from nekro_core.tools.mcp_client.configuration import McpConfig, McpConfigError, McpServerConfig
from nekro_core.tools.mcp_client.entries import (
    CONFIG_FILE,
    McpConfigFile,
    McpConfigShown,
    McpServerEntry,
)
from nekro_core.tools.mcp_client.settings import McpSettings
from nekro_core.tools.mcp_client.state import McpServerPhase, McpServerState
from nekro_core.tools.tool import Tool

STATE_FILE = "mcp_state.json"
"""The bot writes this file into the data folder for `nekro mcp servers`."""
_TRIES = 2
"""Number of attempts of a test. The second attempt uses the other version of the protocol's
handshake."""
_MAX_WAIT_S = 60.0

Offer = Callable[[str, Iterable[Tool]], Callable[[], None]]
"""The type of `PluginRegistry.offer`. It gets a name for the server and the server's tools, offers
the tools to the AI, and returns a function that withdraws them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTestReport:
    """The outcome of a test.

    Attributes:
        works: Whether the server was reached and listed its tools.
        tools: The tools of the server.
        reason: Why the server does not work, without secrets; empty if it works.
        seconds: How long the test took.
    """

    works: bool
    tools: tuple[Tool, ...] = ()
    reason: str = ""
    seconds: float = 0.0


class McpServers:
    """The servers that ``mcp.json`` lists. `open` makes this object."""

    def __init__(
        self,
        data_dir: Path,
        offer: Offer,
        settings: McpSettings,
        environment: Mapping[str, str],
        tasks: TaskGroup,
    ) -> None:
        self._file = McpConfigFile(data_dir, environment)
        self._state_file = data_dir / STATE_FILE
        self._offer = offer
        self._settings = settings
        self._tasks = tasks
        self._running: dict[str, _Running] = {}
        self._states: dict[str, McpServerState] = {}
        self._seen: tuple[tuple[int, int], ...] | None = None
        self._changing = anyio.Lock()
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
        """Start the servers in the ``mcp.json`` of the data folder, and follow changes of this
        file. ``offer`` is called with the tools of each server that is ready.
        ``${NAME}`` in the file stands for a secret of the server or a variable of ``environment``.
        This method does not wait until the servers have started. At the end of the block, all
        servers are ended. A server's problem is logged and shown in its state."""
        async with background_tasks() as tasks:
            servers = cls(data_dir, offer, settings or McpSettings(), environment, tasks)
            tasks.start_soon(servers.follow, name="MCP servers")
            yield servers

    def states(self) -> tuple[McpServerState, ...]:
        """Get the states of all servers that the file lists."""
        return tuple(self._states.values())

    def tools(self, name: str) -> tuple[Tool, ...]:
        """Get the tools that a server offers now; empty if it is not ready."""
        running = self._running.get(name)
        return running.tools if running else ()

    async def configured(self) -> McpConfigShown:
        """Get the entries of the file, without secrets. Raises `OSError`."""
        return await anyio.to_thread.run_sync(self._file.shown)

    async def put(
        self,
        name: str,
        entry: McpServerEntry,
        secrets: Mapping[str, SecretStr | None],
        *,
        revision: str | None = None,
    ) -> None:
        """Add or replace a server. The server is started at once, but this method does not wait
        until it is ready. See `McpConfigFile.put` for the arguments and errors."""
        async with self._changing:
            await anyio.to_thread.run_sync(self._file.put, name, entry, secrets, revision)
            await self._load()

    async def remove(self, name: str, *, revision: str | None = None) -> None:
        """End a server, and remove it and its secrets from the files. See
        `McpConfigFile.remove`."""
        async with self._changing:
            await anyio.to_thread.run_sync(self._file.remove, name, revision)
            await self._load()

    async def restart(self, name: str) -> None:
        """Connect a server anew. Raises `McpConfigError` if there is no running server of this
        name."""
        async with self._changing:
            running = self._running.pop(name, None)
            if running is None:
                raise McpConfigError(f"there is no running server {name!r}")
            await running.end()
            await self._load()

    async def test(
        self,
        name: str,
        entry: McpServerEntry,
        secrets: Mapping[str, SecretStr | None],
        *,
        limit_s: float = _MAX_WAIT_S,
    ) -> McpTestReport:
        """Connect to a server, list its tools, and end it. The server need not be in the file. A
        running server of the same name is not touched.

        Args:
            name: The server's name.
            entry: The entry.
            secrets: The values for each ``${NAME}`` in the entry. None means the stored value.
            limit_s: Longest time in seconds. ``npx`` may download the server first.

        Returns:
            What the test found out. If the server does not work, no error is raised.

        Raises:
            McpConfigError: The entry is not valid.
            OSError: The files cannot be read.
        """
        server = await anyio.to_thread.run_sync(self._file.prepared, name, entry, secrets)
        try:
            made, described = await _load_client()
        except ImportError as error:
            return McpTestReport(works=False, reason=_missing(error))
        began = anyio.current_time()
        found: list[Tool] = []
        ended = anyio.Event()
        failures: list[str] = []

        def tell(state: McpServerState) -> None:
            if state.phase is McpServerPhase.WAITING:
                failures.append(state.reason)
            if state.phase is McpServerPhase.READY or len(failures) >= _TRIES:
                ended.set()

        connection = made.McpConnection(
            server, described.module_of(name), self._settings, offer=found.extend, tell=tell
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.run)
            with anyio.move_on_after(limit_s) as scope:
                await ended.wait()
            tasks.cancel_scope.cancel()
        seconds = anyio.current_time() - began
        if scope.cancelled_caught:
            late = f"it was not ready within {limit_s:g} s"
            return McpTestReport(works=False, reason=(failures or [late])[-1], seconds=seconds)
        if len(failures) >= _TRIES:
            return McpTestReport(works=False, reason=failures[-1], seconds=seconds)
        return McpTestReport(works=True, tools=tuple(found), seconds=seconds)

    async def follow(self) -> None:
        """Read and apply the files whenever they change. Runs until cancelled."""
        while True:
            if self._stamps() != self._seen:  # This check takes only microseconds.
                async with self._changing:
                    await self._load()
            await anyio.sleep(self._settings.look_s)

    def _stamps(self) -> tuple[tuple[int, int], ...]:
        return _stamp(self._file.path), _stamp(self._file.secrets_path)

    async def _load(self) -> None:
        """Read the files and apply them. The caller holds the lock."""
        self._seen = self._stamps()
        await self._apply(await anyio.to_thread.run_sync(self._read))

    def _read(self) -> McpConfig | None:
        try:
            return self._file.load()
        except OSError as error:
            logger.error("{} cannot be read: {}", CONFIG_FILE, error)
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
            made, described = await _load_client()
        except ImportError as error:
            reason = _missing(error)
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
            offer=lambda tools: running.offered(tools, self._offer(f"mcp.{module}", tools)),
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
        self.tools: tuple[Tool, ...] = ()
        """The tools that the server offers now."""

    def offered(self, tools: Sequence[Tool], withdraw: Callable[[], None]) -> None:
        """Store the offered tools and the function that withdraws them."""
        self.tools, self._withdraw = tuple(tools), withdraw

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


async def _load_client() -> tuple[Any, Any]:
    """Import the modules that need the package ``mcp``. The package takes a second to import, so
    this is done in a thread, and only if there is a server. Raises `ImportError`."""
    load = partial(import_module, "nekro_core.tools.mcp_client.connection")
    made = await anyio.to_thread.run_sync(load)
    return made, import_module("nekro_core.tools.mcp_client.conversion")


def _missing(error: ImportError) -> str:
    return f'{error.name or error} is missing: pip install "nekro-core[mcp]"'


def read_states(data_dir: Path) -> list[Mapping[str, Any]]:
    """Read the servers' states from the file that the bot last wrote; empty if there is no
    file."""
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
