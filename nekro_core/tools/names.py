"""Gives tools the names that the model's code uses, and resolves conflicts."""

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
    """Several tools claim one bare name. ``winner`` is the dotted name of the tool that gets it, or
    empty.

    ``claims`` are the dotted names of all tools that claim it, ``owners`` their plugins' keys.
    ``message`` describes the conflict and a remedy.
    """

    name: str
    claims: tuple[str, ...]
    owners: tuple[str, ...]
    winner: str
    message: str


@dataclass(frozen=True, slots=True)
class NamedTool:
    """A tool with the names it is bound to in a box; the first is the one shown to the model."""

    tool: Tool
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name shown to the model."""
        return self.names[0]


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools that one chat's code may call, by name. Hidden tools are not among them."""

    named: tuple[NamedTool, ...]
    clashes: tuple[NameConflict, ...] = ()
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
        """The tools alone, in the order of their plugins."""
        return tuple(each.tool for each in self.named)

    def once(self, make: Callable[["ToolSet"], _Made]) -> _Made:
        """Return what a function makes of this set. The result is cached, since the set lives for
        many turns."""
        if make not in self._made:
            self._made[make] = make(self)
        made: _Made = self._made[make]
        return made

    def resolve(self, name: str) -> Tool | None:
        """The tool that is bound to a name, bare or dotted."""
        found = self._by_name.get(name)
        return found.tool if found else None

    def name_of(self, tool: Tool) -> str:
        """The name of a tool that the model sees. Raises `KeyError` for a tool that is not in the
        set."""
        return next((each.name for each in self.named if each.tool is tool), "") or _stranger(tool)

    def similar_names(self, name: str) -> list[str]:
        """Names like this one, best first, for an error message."""
        return difflib.get_close_matches(name, self._by_name, 3, 0.5)


def tool_set(
    tools: Iterable[Tool], *, builtin: Collection[str] = (), order: Sequence[str] = ()
) -> ToolSet:
    """Give every tool its names.

    ``module.python_name`` always works. The bare ``name`` (where it is an identifier) and the bare
    Python name work unless another tool gets them. An installed plugin wins over a built-in one
    (whose keys are ``builtin``). Of two installed ones the earlier in ``order`` wins (plugin keys,
    as the operator ranks them); if neither is listed, neither gets the name. Within one plugin
    ``name`` wins over a Python name, and a later definition over an earlier one, as in Python.
    Python's own names (``print``, ``for``) are never given to tools.
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
        if len(rivals) > 1:
            clashes.append(_clash(name, rivals, winner))
    named = [NamedTool(tool, _names(tool, owners, offered)) for tool in offered]
    # A function with a plugin's name is bound first: the plugin's other tools become its
    # attributes.
    modules = {tool.module for tool in offered}
    named.sort(key=lambda each: not modules.intersection(each.names))
    return ToolSet(tuple(named), tuple(clashes))


def short_name_candidates(tool: Tool) -> tuple[str, ...]:
    """The bare names that a tool may get, best first, if no other tool claims them. A tool whose
    author names it ``module.python_name`` gets none: ``glob`` alone would look like Python's
    module."""
    if tool.name == dotted_name(tool):
        return ()
    wanted = dict.fromkeys((tool.name, tool.python_name))
    return tuple(name for name in wanted if is_free_name(name))


def is_free_name(name: str) -> bool:
    """Whether a tool can have a name without hiding one of Python's."""
    return name.isidentifier() and name not in _TAKEN_BY_PYTHON and not name.startswith("__")


def dotted_name(tool: Tool) -> str:
    """The name that always works."""
    return f"{tool.module}.{tool.python_name}"


def _latest(tools: Iterable[Tool]) -> list[Tool]:
    """One tool for each plugin and function name: a second definition replaces the first."""
    return list({(tool.owner, tool.python_name): tool for tool in tools}.values())


def _one_each_plugin(name: str, wanting: Sequence[Tool]) -> list[Tool]:
    by_owner: dict[str, Tool] = {}
    for tool in wanting:
        held = by_owner.get(tool.owner)
        if held is None or tool.name == name or held.name != name:
            by_owner[tool.owner] = tool
    return list(by_owner.values())


def _winner(rivals: Sequence[Tool], builtin: Collection[str], order: Sequence[str]) -> Tool | None:
    installed = [tool for tool in rivals if tool.owner not in builtin] or list(rivals)
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
    # Two plugins may have the same name: only the whole key tells their tools apart.
    if len(twins) > 1:
        dotted = f"{tool.owner}.{tool.python_name}"
    return (*bare, dotted)


def _stranger(tool: Tool) -> str:
    raise KeyError(f"{dotted_name(tool)} is not in this set")
