"""Converts a chat's tools into the form that the model reads: Python stubs, or functions for native
calls."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from nekro_core.llm.model import Function
from nekro_core.llm.tokens import estimate_tokens, function_text
from nekro_core.tools.names import NamedTool, ToolSet, dotted_name
from nekro_core.tools.schema import function_schema
from nekro_core.tools.stub import outline, stub
from nekro_core.tools.tool import Tool, Visibility

_MAX_NAME = 64
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")


def tools_text(tools: ToolSet) -> str:
    """Return the outlines of the visible tools. An outline is a short form of a stub
    (`nekro_core.tools.stub.outline`)."""
    visible = (each for each in tools.named if each.tool.visibility is Visibility.VISIBLE)
    return "\n".join(map(tool_outline, visible))


def tool_outline(named: NamedTool) -> str:
    """Return the outline of one tool."""
    head, _, body = outline(named.tool, named.name).partition("\n")
    mark = "  # ends the run" if named.tool.kind.ends_run else ""
    return f"{head}{mark}\n{body}"


def tool_text(named: NamedTool) -> str:
    """Return the Python stub of one tool."""
    mark = "  # ends the run" if named.tool.kind.ends_run else ""
    # If a tool can only be called by its dotted name, the stub says so.
    dotted = f"# call it as {named.name}\n" if "." in named.name else ""
    head, _, body = stub(named.tool, named.name).partition("\n")
    return f"{dotted}{head}{mark}\n{body}"


@dataclass(frozen=True, slots=True)
class FunctionSet:
    """The functions of a set's tools. ``offered`` are those that the model is shown. ``names`` maps
    the name of every function to its tool. It includes deferred tools, because a call of a deferred
    tool is carried out even if the model did not search for the tool. ``tokens`` estimates the size
    of the offered functions."""

    offered: tuple[Function, ...]
    names: Mapping[str, Tool]
    tokens: int
    _every: Mapping[str, Function]

    def name_of(self, tool: Tool) -> str:
        """Return the name of a tool's function. Raises `KeyError` if the set does not have the
        tool."""
        return next((name for name, each in self.names.items() if each is tool), "") or _stranger(
            tool
        )

    def function_of(self, tool: Tool) -> Function:
        """Return the function of a tool. Raises `KeyError` if the set does not have the tool."""
        return self._every[self.name_of(tool)]

    def with_tools(self, tools: Iterable[Tool]) -> "FunctionSet":
        """Return a copy that also offers these tools of the set."""
        more = [self.function_of(tool) for tool in tools]
        return replace(
            self,
            offered=(*self.offered, *more),
            tokens=self.tokens + _tokens(more),
        )


def function_set(tools: ToolSet) -> FunctionSet:
    """Convert a set's tools into functions. The visible tools are offered. Names that the API does
    not accept are changed to ASCII."""
    offered: list[Function] = []
    names: dict[str, Tool] = {}
    every: dict[str, Function] = {}
    for named in tools.named:
        schema = function_schema(named.tool, _shown(named, tools))["function"]
        name = _fitting(schema["name"], named.tool, names)
        names[name] = named.tool
        every[name] = function = Function(
            name=name,
            description=schema["description"] or named.tool.name,
            parameters=schema["parameters"],
        )
        if named.tool.visibility is Visibility.VISIBLE:
            offered.append(function)
    return FunctionSet(tuple(offered), names, _tokens(offered), every)


def _tokens(functions: Iterable[Function]) -> int:
    return sum(estimate_tokens(function_text(each)) for each in functions)


def _stranger(tool: Tool) -> str:
    raise KeyError(f"{dotted_name(tool)} is not in this set")


def _shown(named: NamedTool, tools: ToolSet) -> str:
    """Return the name under which a tool is offered. This is its name in code, with one exception.
    Code may need the plugin's name as a prefix only because the short name would hide a name of
    Python. Natively called functions cannot hide such names, so the short name is returned."""
    tool = named.tool
    if tool.name == dotted_name(tool) and tools.resolve(tool.python_name) is None:
        return tool.python_name
    return named.name


def _fitting(name: str, tool: Tool, taken: Mapping[str, Tool]) -> str:
    """Return a unique name of at most 64 ASCII letters, digits, ``_`` and ``-``."""
    if _UNFIT.search(name):
        # A Python name may be Chinese. Then the name is made from the plugin's short name, which
        # says more than underscores.
        name = _UNFIT.sub("", name).strip("_") or f"{tool.module}_function"
        name = _UNFIT.sub("_", name)
    fitting = name[:_MAX_NAME]
    number = 2
    while fitting in taken:
        ending = f"_{number}"
        fitting = f"{name[: _MAX_NAME - len(ending)]}{ending}"
        number += 1
    return fitting
