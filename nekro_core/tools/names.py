"""Gives tools the names that the model's code uses, and resolves name conflicts."""

import builtins
import difflib
import keyword
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from nekro_core.tools.tool import Tool, Visibility

_Made = TypeVar("_Made")
_TAKEN_BY_PYTHON = frozenset(dir(builtins)) | frozenset(keyword.kwlist)


@dataclass(frozen=True, slots=True)
class NameConflict:
    """Several tools claim the same bare name (a name without a module). ``winner`` is the dotted
    name of the tool that gets the bare name; empty if no tool gets it.

    ``claims`` has the dotted names of all these tools, and ``owners`` the keys of their plugins.
    ``message`` describes the conflict and a remedy.
    """

    name: str
    claims: tuple[str, ...]
    owners: tuple[str, ...]
    winner: str
    message: str


@dataclass(frozen=True, slots=True)
class NamedTool:
    """A tool, and the names under which code in a box can call it. The model sees the first
    name."""

    tool: Tool
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name that the model sees."""
        return self.names[0]


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools that one chat's code may call, by name. It does not include hidden tools. ``off``
    has the names of the tools that the operator has switched off in this chat."""

    named: tuple[NamedTool, ...]
    clashes: tuple[NameConflict, ...] = ()
    off: frozenset[str] = frozenset()
    _by_name: MappingProxyType[str, NamedTool] = field(
        init=False, repr=False, compare=False, default_factory=lambda: MappingProxyType({})
    )
    _made: dict[Callable[["ToolSet"], Any], Any] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        table = {name: each for each in self.named for name in each.names}
        object.__setattr__(self, "_by_name", MappingProxyType(table))

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools without their names, in the order of their plugins."""
        return tuple(each.tool for each in self.named)

    def once(self, make: Callable[["ToolSet"], _Made]) -> _Made:
        """Call the function ``make`` with this set, and cache its result: a second call with the
        same function returns the same object. The cache is useful because one set serves many
        turns."""
        if make not in self._made:
            self._made[make] = make(self)
        made: _Made = self._made[make]
        return made

    def narrowed(self, allows: Callable[[Tool], bool]) -> "ToolSet":
        """Get the set with only the tools for which ``allows`` is true. The names of the other
        tools are in ``off``. The remaining tools keep their names."""
        left = tuple(each for each in self.named if allows(each.tool))
        names = {name for each in self.named if not allows(each.tool) for name in each.names}
        return ToolSet(left, self.clashes, self.off | names)

    def resolve(self, name: str) -> Tool | None:
        """Get the tool with a bare or dotted name; None if there is none."""
        found = self._by_name.get(name)
        return found.tool if found else None

    def name_of(self, tool: Tool) -> str:
        """Get the name under which the model sees a tool. Raises `KeyError` if the tool is not in
        the set."""
        return next((each.name for each in self.named if each.tool is tool), "") or _stranger(tool)

    def why_unknown(self, name: str) -> str:
        """Get the message for a name that `resolve` does not find."""
        if name in self.off:
            return f"{name} is switched off in this chat"
        similar = ", ".join(self.similar_names(name))
        return f"there is no function {name!r}" + (f"; there is {similar}" if similar else "")

    def similar_names(self, name: str) -> list[str]:
        """Get names that are similar to ``name``, best first, for an error message."""
        return difflib.get_close_matches(name, self._by_name, 3, 0.5)


def tool_set(
    tools: Iterable[Tool], *, builtin: Collection[str] = (), order: Sequence[str] = ()
) -> ToolSet:
    """Give every tool its names.

    Every tool gets the name ``module.python_name``. If two plugins with the same module name both
    have this function, the two tools get ``key.python_name`` instead, with the key of the plugin.
    The bare ``name``, if it is an identifier, and the bare Python name also work, unless another
    tool gets them. ``builtin`` has the keys of built-in plugins. An installed plugin wins over a
    built-in plugin. Every other tool wins over a tool whose visibility is `Visibility.UNLISTED`.
    ``order`` has the keys of plugins as the operator ranked them. Of two installed plugins, the one
    that comes first in ``order`` wins. If ``order`` names neither plugin, neither tool gets the
    name. Within one plugin, ``name`` wins over a Python name, and a later definition over an
    earlier one. Python's own names (``print``, ``for``) are never given to tools.
    """
    offered = _latest(tool for tool in tools if tool.visibility is not Visibility.HIDDEN)
    claims: dict[str, list[Tool]] = defaultdict(list)
    for tool in offered:
        for name in short_name_candidates(tool):
            claims[name].append(tool)
    owners: dict[str, Tool] = {}
    clashes: list[NameConflict] = []
    for name, wanting in claims.items():
        rivals = _one_each_plugin(name, wanting)
        winner = _winner(rivals, builtin, order)
        if winner is not None:
            owners[name] = winner
        if sum(tool.visibility is not Visibility.UNLISTED for tool in rivals) > 1:
            clashes.append(_clash(name, rivals, winner))
    named = [NamedTool(tool, _names(tool, owners, offered)) for tool in offered]
    # A tool with the same name as a plugin must come first, because the other tools of that plugin
    # become attributes of this tool.
    modules = {tool.module for tool in offered}
    named.sort(key=lambda each: not modules.intersection(each.names))
    return ToolSet(tuple(named), tuple(clashes))


def short_name_candidates(tool: Tool) -> tuple[str, ...]:
    """Get the bare names that a tool may have, best first, if no other tool claims them. A tool
    whose ``name`` is ``module.python_name`` gets no bare name. For example, ``glob`` without its
    module would look like Python's ``glob``."""
    if tool.name == dotted_name(tool):
        return ()
    wanted = dict.fromkeys((tool.name, tool.python_name))
    return tuple(name for name in wanted if is_free_name(name))


def is_free_name(name: str) -> bool:
    """Return True if a tool can have a name without hiding a name of Python."""
    return name.isidentifier() and name not in _TAKEN_BY_PYTHON and not name.startswith("__")


def dotted_name(tool: Tool) -> str:
    """Get the name with the module. Code can call the tool by this name, unless another plugin has
    the same module and function name (see `tool_set`)."""
    return f"{tool.module}.{tool.python_name}"


def _latest(tools: Iterable[Tool]) -> list[Tool]:
    """Get one tool for each plugin and function name. A later definition replaces an earlier
    one."""
    return list({(tool.owner, tool.python_name): tool for tool in tools}.values())


def _one_each_plugin(name: str, wanting: Sequence[Tool]) -> list[Tool]:
    by_owner: dict[str, Tool] = {}
    for tool in wanting:
        held = by_owner.get(tool.owner)
        if held is None or tool.name == name or held.name != name:
            by_owner[tool.owner] = tool
    return list(by_owner.values())


def _winner(rivals: Sequence[Tool], builtin: Collection[str], order: Sequence[str]) -> Tool | None:
    listed = [tool for tool in rivals if tool.visibility is not Visibility.UNLISTED]
    installed = [tool for tool in listed if tool.owner not in builtin] or listed or list(rivals)
    if len(installed) == 1:
        return installed[0]
    ranked = [tool for tool in installed if tool.owner in order]
    return min(ranked, key=lambda tool: order.index(tool.owner)) if ranked else None


def _clash(name: str, rivals: Sequence[Tool], winner: Tool | None) -> NameConflict:
    dotted = tuple(map(dotted_name, rivals))
    among = ", ".join(f"{tool.owner} ({tool.where or dotted_name(tool)})" for tool in rivals)
    if winner is not None:
        message = f"{name!r} is wanted by {among}: {winner.owner} has it"
    else:
        message = (
            f"{name!r} is wanted by {among}: nobody has it until the operator orders them; "
            f"they are called {' and '.join(dotted)}"
        )
    owners = tuple(tool.owner for tool in rivals)
    return NameConflict(name, dotted, owners, dotted_name(winner) if winner else "", message)


def _names(tool: Tool, owners: dict[str, Tool], offered: Sequence[Tool]) -> tuple[str, ...]:
    bare = [name for name in short_name_candidates(tool) if owners.get(name) is tool]
    dotted = dotted_name(tool)
    twins = [each for each in offered if dotted_name(each) == dotted]
    # Two plugins may have the same module name. In this case, only the plugin's key makes the name
    # unique.
    if len(twins) > 1:
        dotted = f"{tool.owner}.{tool.python_name}"
    return (*bare, dotted)


def _stranger(tool: Tool) -> str:
    raise KeyError(f"{dotted_name(tool)} is not in this set")
