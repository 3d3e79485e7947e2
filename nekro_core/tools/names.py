"""The names by which the model's code finds a tool, and what happens if two want the same one."""

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
    """Several tools want one bare name. ``winner`` is the dotted name of who has it, or empty.

    ``claims`` are the dotted names of all who want it, ``owners`` their plugins' keys; ``message``
    says it in words, with remedy.
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
        """What a function makes of this set, kept with it: the set outlives many turns."""
        if make not in self._made:
            self._made[make] = make(self)
        made: _Made = self._made[make]
        return made

    def resolve(self, name: str) -> Tool | None:
        """The tool that is bound to a name, bare or dotted."""
        found = self._by_name.get(name)
        return found.tool if found else None

    def name_of(self, tool: Tool) -> str:
        """The name under which the model is shown a tool. Raises `KeyError` for a stranger."""
        return next((each.name for each in self.named if each.tool is tool), "") or _stranger(tool)

    def similar_names(self, name: str) -> list[str]:
        """Names like this one, best first, for an error message."""
        return difflib.get_close_matches(name, self._by_name, 3, 0.5)


def tool_set(
    tools: Iterable[Tool], *, builtin: Collection[str] = (), order: Sequence[str] = ()
) -> ToolSet:
    """Give every tool its names.

    ``module.python_name`` always works. The bare ``name`` (where it is an identifier) and the bare
    Python name work where nobody else has them: an installed plugin goes before a built-in one
    (whose keys are ``builtin``); of two installed ones the earlier in ``order`` (plugin keys, as
    the operator ranks them), else neither. Inside one plugin ``name`` goes before a Python name,
    and a later definition before an earlier one, as in Python. What Python itself owns (``print``,
    ``for``) stays Python's.
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
    # A function that shares a plugin's name is bound first: it then carries the plugin's others.
    modules = {tool.module for tool in offered}
    named.sort(key=lambda each: not modules.intersection(each.names))
    return ToolSet(tuple(named), tuple(clashes))


def short_name_candidates(tool: Tool) -> tuple[str, ...]:
    """The bare names that a tool may have, best first, if nobody else claims them. An author who
    names a tool ``module.python_name`` wants no other: ``glob`` alone would read as Python's own
    module."""
    if tool.name == dotted_name(tool):
        return ()
    wanted = dict.fromkeys((tool.name, tool.python_name))
    return tuple(name for name in wanted if is_free_name(name))


def is_free_name(name: str) -> bool:
    """Whether a name can stand for a tool without hiding something of Python's own."""
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
    # Two authors may call their plugin the same: only the whole key tells their tools apart.
    if len(twins) > 1:
        dotted = f"{tool.owner}.{tool.python_name}"
    return (*bare, dotted)


def _stranger(tool: Tool) -> str:
    raise KeyError(f"{dotted_name(tool)} is not in this set")
