"""Runs the MCP servers of a file as a bot does, so that tests can call their tools."""

import json
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from nekro_core.chat import ChatKey
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import Services
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.tools.mcp_client import McpServerPhase, McpServers, McpServerState, McpSettings
from nekro_core.tools.names import ToolSet, tool_set
from nekro_core.tools.outcome import Outcome
from nekro_core.tools.tool import Tool

PEER = Path(__file__).with_name("peer.py")
QUICK = McpSettings(look_s=0.05, retry_s=0.1, connect_s=20)


def peer(mode: str = "good", *more: str, **entry: Any) -> dict[str, Any]:
    """The entry for `peer.py` in the file of servers."""
    return {"command": sys.executable, "args": [str(PEER), mode, *more], **entry}


class World:
    """A data folder with a file of servers, and the tools that the servers offer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.offered: dict[str, tuple[Tool, ...]] = {}
        self.servers: McpServers

    def write(self, **servers: Any) -> None:
        """Write the file of servers."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")

    def offer(self, owner: str, tools: Iterable[Tool]) -> Callable[[], None]:
        """Do what `PluginRegistry.offer` does."""
        self.offered[owner] = tuple(tools)
        return lambda: self.offered.pop(owner, None) and None

    @property
    def tools(self) -> ToolSet:
        return tool_set(tool for tools in self.offered.values() for tool in tools)

    def state(self, name: str) -> McpServerState | None:
        return next((each for each in self.servers.states() if each.name == name), None)

    async def until(self, told: Callable[[], object], within_s: float = 30) -> None:
        """Wait until the condition is true."""
        with anyio.move_on_after(within_s):
            while not told():
                await anyio.sleep(0.01)
        assert told(), (self.servers.states(), list(self.offered))

    async def ready(self, name: str) -> None:
        """Wait until a server is ready."""
        await self.until(
            lambda: (state := self.state(name)) and state.phase is McpServerPhase.READY
        )

    async def call(self, name: str, **arguments: Any) -> Outcome:
        """Call a tool as the code of a run does."""
        tool = self.tools.resolve(name)
        assert tool is not None, [each.names for each in self.tools.named]
        nobody: Any = dict.fromkeys(("outgoing", "journal", "media", "plugin_data", "speaker"))
        services = Services(**nobody, data_dir=self.folder)
        ctx = AgentCtx(services=services, chat=ChatKey.parse("fake-private_lin"))
        return await call_tool(tool, ctx, (), arguments)


@asynccontextmanager
async def world(
    folder: Path, settings: McpSettings = QUICK, **servers: Any
) -> AsyncIterator[World]:
    """Run servers until the end of the block."""
    made = World(folder)
    made.write(**servers)
    async with McpServers.open(folder, made.offer, settings) as running:
        made.servers = running
        yield made
