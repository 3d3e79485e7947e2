"""Shows MCP servers, tests them, and adds, changes and removes them."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, SecretStr

from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change, UndoCall
from nekro_core.operator.errors import ChangedMeanwhile, NoSuchItem
from nekro_core.operator.masks import masked
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.tools.mcp_client import (
    McpConfigChanged,
    McpEntryShown,
    McpServerEntry,
    McpServers,
)
from nekro_core.tools.stub import signature_text
from nekro_core.tools.tool import Tool

ServerName = Annotated[str, Field(min_length=1, max_length=64)]
OFF = "off"
"""The phase of a server that is switched off in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerView:
    """An MCP server.

    Attributes:
        name: Its name.
        entry: Its entry in the file. Secrets are shown as ``${NAME}``.
        phase: ``ready``, ``connecting``, ``waiting`` (until the next attempt to connect), ``wrong``
            (its entry cannot be used) or ``off`` (it is switched off in the file).
        reason: Why it is not ready; empty if it is.
        tools: The number of its tools.
        secrets: The names of the secrets that have a value.
        missing: The names of variables without a value.
    """

    name: str
    entry: McpServerEntry
    phase: str
    reason: str
    tools: int
    secrets: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServersView:
    """All servers. A change that names an older ``revision`` than the present one is refused.
    ``problem`` says why the file of the servers cannot be read; empty if it can. While it cannot be
    read, the servers that run stay as they are."""

    servers: tuple[McpServerView, ...]
    revision: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolView:
    """A tool of a server as the model sees it: its name, its signature and its description."""

    name: str
    signature: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTestView:
    """The outcome of a test. ``reason`` says why the server does not work."""

    works: bool
    reason: str
    seconds: float
    tools: tuple[McpToolView, ...]


class Mcp(Area):
    """The MCP servers.

    Args:
        audit: The audit log.
        servers: The running servers.
    """

    name = "mcp"

    def __init__(self, audit: AuditLog, servers: McpServers) -> None:
        super().__init__(audit)
        self._servers = servers

    @query(role=AccessRole.VIEWER)
    async def all(self, actor: Actor) -> McpServersView:
        """List the servers with their states. People who are not owners see stars in place of what
        looks like a secret, for example in the arguments of a command."""
        configured = await self._servers.configured()
        owner = actor.role.allows(AccessRole.OWNER)
        states = {each.name: each for each in self._servers.states()}
        views = []
        for shown in configured.entries:
            state = states.get(shown.name)
            phase = state.phase.value if state else OFF if shown.entry.disabled else "wrong"
            views.append(
                McpServerView(
                    name=shown.name,
                    entry=shown.entry if owner else _masked(shown.entry),
                    phase=phase,
                    reason=state.reason if state else shown.problem,
                    tools=state.tools if state else 0,
                    secrets=shown.secrets,
                    missing=shown.missing,
                )
            )
        return McpServersView(
            servers=tuple(views), revision=configured.revision, problem=configured.problem
        )

    @query(role=AccessRole.VIEWER)
    async def tools(self, actor: Actor, *, server: ServerName) -> list[McpToolView]:  # noqa: ARG002
        """List the tools that a server offers now.

        Args:
            server: The server's name.
        """
        return [_tool(each) for each in self._servers.tools(server)]

    @action(role=AccessRole.OWNER)
    async def put(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        server: ServerName,
        entry: McpServerEntry,
        secrets: dict[str, SecretStr | None] | None = None,
        revision: str | None = None,
    ) -> Change[None]:
        """Add a server or change it. It is started at once.

        Args:
            server: The server's name.
            entry: Its command or address. A secret is written as ``${NAME}``.
            secrets: The values of the secrets by name; null keeps the saved value.
            revision: The revision that the person has seen.
        """
        old = await self._entry(server)
        try:
            await self._servers.put(server, entry, secrets or {}, revision=revision)
        except McpConfigChanged as error:
            raise ChangedMeanwhile(str(error)) from None
        undo: UndoCall | None = UndoCall(action="mcp.remove", parameters={"server": server})
        if old is not None:
            undo = None
            # Undo is possible only without secrets, because the log does not store their values.
            if not old.secrets and not secrets:
                undo = UndoCall(
                    action="mcp.put", parameters={"server": server, "entry": _dump(old.entry)}
                )
        return Change(
            result=None,
            subject=server,
            old=_dump(old.entry) if old else None,
            new=_dump(entry),
            undo=undo,
        )

    @action(role=AccessRole.OWNER)
    async def remove(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        server: ServerName,
        revision: str | None = None,
    ) -> Change[None]:
        """End a server, and remove it and its secrets.

        Args:
            server: The server's name.
            revision: The revision that the person has seen.
        """
        old = await self._entry(server)
        if old is None:
            raise NoSuchItem(f"there is no MCP server {server!r}")
        try:
            await self._servers.remove(server, revision=revision)
        except McpConfigChanged as error:
            raise ChangedMeanwhile(str(error)) from None
        undo = None
        if not old.secrets:
            undo = UndoCall(
                action="mcp.put", parameters={"server": server, "entry": _dump(old.entry)}
            )
        return Change(result=None, subject=server, old=_dump(old.entry), undo=undo)

    @action(role=AccessRole.OPERATOR)
    async def restart(self, actor: Actor, *, server: ServerName) -> Change[None]:  # noqa: ARG002
        """Connect a server anew.

        Args:
            server: The server's name.
        """
        await self._servers.restart(server)
        return Change(result=None, subject=server)

    @action(role=AccessRole.OWNER)
    async def test(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        server: ServerName,
        entry: McpServerEntry,
        secrets: dict[str, SecretStr | None] | None = None,
    ) -> Change[McpTestView]:
        """Connect to a server, list its tools and disconnect, within a minute. The server need not
        be saved.

        Args:
            server: The server's name.
            entry: Its command or address.
            secrets: The values of the secrets by name; null uses the saved value.
        """
        report = await self._servers.test(server, entry, secrets or {})
        view = McpTestView(
            works=report.works,
            reason=report.reason,
            seconds=report.seconds,
            tools=tuple(map(_tool, report.tools)),
        )
        return Change(result=view, subject=server, new="works" if report.works else report.reason)

    async def _entry(self, server: str) -> McpEntryShown | None:
        entries = (await self._servers.configured()).entries
        return next((each for each in entries if each.name == server), None)


def _tool(tool: Tool) -> McpToolView:
    return McpToolView(
        name=tool.name,
        signature=signature_text(tool),
        description="\n".join(filter(None, (tool.summary, tool.details))),
    )


def _masked(entry: McpServerEntry) -> McpServerEntry:
    return McpServerEntry.model_validate(masked(entry.model_dump(mode="json")))


def _dump(entry: McpServerEntry) -> dict[str, object]:
    return entry.model_dump(mode="json", exclude_defaults=True)
