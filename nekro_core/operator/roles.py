"""Defines who asks for something: the roles of people, and the actor of one request."""

from dataclasses import dataclass
from enum import StrEnum


class AccessRole(StrEnum):
    """What a person may do. The roles are listed from the least to the most powerful. Each role may
    also do everything that the roles before it may do.

    A person who can run code on the bot's machine outside of a box, or can read the bot's secrets,
    can get every right. So an operation needs the role `OWNER` if its parameters can contain one of
    these:

    - code or a program that the bot's machine runs outside of a box: ``plugins.install``,
      ``plugins.update``, ``mcp.put`` and ``mcp.test`` (also for a server with an address, so that
      the rule has no exception);
    - a path on the bot's machine that is read: ``plugins.look``, ``plugins.index``,
      ``embedded.copy``;
    - settings that can name a path, a program, or another address for a stored secret:
      ``settings.set``, ``plugins.configure``, ``platforms.change_account``,
      ``platforms.test_account``. ``models.put`` and ``models.test`` need only `OPERATOR`, since
      they send no stored key to another address or proxy.

    An operation also needs `OWNER` if it shows a secret (``platforms.connection_hint``,
    ``backups.download``), or if its undo needs `OWNER` (``mcp.remove``). ``plugins.try_tool`` needs
    only `OPERATOR`, because the model calls the same tools for anybody who writes to the bot.
    ``plugins.roll_back`` and ``plugins.enable`` also need only `OPERATOR`, because an owner has
    installed the code that they load.
    """

    VIEWER = "viewer"
    """May read all pages except those that manage people and secrets."""
    OPERATOR = "operator"
    """May also change how the bot behaves (chats, models, personas, timers, network rules), add
    accounts, and switch platforms and plugins on and off."""
    OWNER = "owner"
    """May also change settings, install plugins and MCP servers, manage the people of the console,
    and make and restore backups. With each of these, a person could get every right."""

    def allows(self, needed: "AccessRole") -> bool:
        """Return True if a person with this role may do what ``needed`` allows.

        Args:
            needed: The role that an operation needs.

        Returns:
            True if this role is the same or more powerful.
        """
        order = [*AccessRole]
        return order.index(self) >= order.index(needed)


class RequestOrigin(StrEnum):
    """The way by which a request came, for example a page or the HTTP API."""

    PAGE = "page"
    API = "api"
    CLI = "cli"
    CHAT = "chat"
    SYSTEM = "system"
    """The bot itself, for example a backup that a schedule makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who asks for one query or action.

    Attributes:
        name: The person's name in the console, or the platform's key of a person who writes a chat
            command.
        role: What the person may do.
        origin: The way by which the request came.
        address: The network address of the browser or program; empty if there is none.
        scopes: What an API token may do, for example ``chats:read`` or ``plugins:act``; ``*`` for
            all. None if the request was not made with a token.
    """

    name: str
    role: AccessRole
    origin: RequestOrigin
    address: str = ""
    scopes: frozenset[str] | None = None

    def in_scope(self, area: str, *, acts: bool) -> bool:
        """Return True if the scopes of the token allow an operation.

        Args:
            area: The area of the operation, for example ``chats``.
            acts: Whether the operation is an action. A scope that allows actions allows queries
                too.

        Returns:
            True if the scopes allow it, or if the request was not made with a token.
        """
        if self.scopes is None:
            return True
        wanted = {"*", f"{area}:act"} if acts else {"*", "*:read", f"{area}:read", f"{area}:act"}
        return bool(self.scopes & wanted)
