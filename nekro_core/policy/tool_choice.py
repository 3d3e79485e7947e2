"""Decides which tools the agent of a chat has.

The operator's overrides have a table with names on the left, and ``on`` or ``off`` on the right::

    tools = { "nekro.dice" = "off", "nekro.chat:send_file" = "off" }   # all but these
    tools = { "*" = "off", "nekro.chat" = "on" }                       # none but these

A name is ``plugin:function`` for one tool, ``plugin`` for all tools of a plugin or an MCP server,
and ``*`` for all tools. If several names cover a tool, the narrowest name applies. A tool that no
name covers is on.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from nekro_core.chat import ChatKey
from nekro_core.tools.discovery.search import is_search
from nekro_core.tools.tool import Tool

Switch = Literal["on", "off"]
EVERY = "*"
"""The name of all tools."""
_NAME = re.compile(r"[^\s:*]{1,200}(:[^\s:*]{1,200})?\Z")


def check_names(rules: Mapping[str, Switch]) -> None:
    """Check the names of a table. Raises `ValueError`."""
    for name in rules:
        if name != EVERY and not _NAME.match(name):
            raise ValueError(
                f"{name[:80]!r}: expected a plugin such as nekro.dice, one of its functions such "
                "as nekro.dice:roll, or * for all tools"
            )


def name_of_tool(tool: Tool) -> str:
    """Return the name that covers this tool alone, for example ``nekro.dice:roll``."""
    return f"{tool.owner}:{tool.python_name}"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The tools of one chat. Equal choices have the same hash."""

    rules: tuple[tuple[str, Switch], ...] = ()
    _switches: dict[str, Switch] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_switches", dict(self.rules))

    @classmethod
    def of(cls, rules: Mapping[str, Switch]) -> "ToolChoice":
        """Return the choice that a table of the overrides makes."""
        return cls(tuple(sorted(rules.items())))

    def allows(self, tool: Tool) -> bool:
        """Return True if the agent may call a tool. The agent may always call the search for tools;
        the search finds only tools that the agent may call."""
        return not self.rules or is_search(tool) or self._switch(name_of_tool(tool), tool.owner)

    def leaves_out(self, plugin: str) -> bool:
        """Return True if the plugin's name is off and none of its functions is on."""
        return self._switches.get(plugin) == "off" and not any(
            switch == "on" and name.startswith(f"{plugin}:") for name, switch in self.rules
        )

    def _switch(self, *names: str) -> bool:
        for name in (*names, EVERY):
            if name in self._switches:
                return self._switches[name] == "on"
        return True


EVERY_TOOL = ToolChoice()


class ToolChoices:
    """The choices of all chats. The overrides are read after the plugins are loaded, and then `use`
    is called. Until then, each chat has all tools."""

    def __init__(self) -> None:
        self._of: Callable[[ChatKey], ToolChoice] = lambda _: EVERY_TOOL

    def use(self, of: Callable[[ChatKey], ToolChoice]) -> None:
        """Use the function ``of`` to get the choice of a chat."""
        self._of = of

    def of(self, chat_key: ChatKey) -> ToolChoice:
        """Return the choice of a chat."""
        return self._of(chat_key)
