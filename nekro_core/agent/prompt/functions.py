"""A chat's tools as the model reads them: stubs in Python, or functions that it calls natively."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from nekro_core.llm.model import Function
from nekro_core.llm.tokens import estimate_tokens, function_text
from nekro_core.tools.names import NamedTool, ToolSet, dotted_name
from nekro_core.tools.schema import function_schema
from nekro_core.tools.stub import stub
from nekro_core.tools.tool import Tool, Visibility

_MAX_NAME = 64
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")


def tools_text(tools: ToolSet) -> str:
    """The visible tools as the model reads them."""
    visible = (each for each in tools.named if each.tool.visibility is Visibility.VISIBLE)
    return "\n\n".join(map(tool_text, visible))


def tool_text(named: NamedTool) -> str:
    """One tool as the model reads it."""
    mark = "  # ends the run" if named.tool.kind.ends_run else ""
    # A tool that has no bare name is written as it must be called.
    dotted = f"# call it as {named.name}\n" if "." in named.name else ""
    head, _, body = stub(named.tool, named.name).partition("\n")
    return f"{dotted}{head}{mark}\n{body}"


@dataclass(frozen=True, slots=True)
class FunctionSet:
    """The functions that are offered. ``names`` maps a function's name to its tool, also for
    deferred ones: a call of one that was not searched for is carried out. ``tokens`` estimates the
    size of the offered ones."""

    offered: tuple[Function, ...]
    names: Mapping[str, Tool]
    tokens: int
    _every: Mapping[str, Function]

    def name_of(self, tool: Tool) -> str:
        """The name of a tool's function. Raises `KeyError` if the set does not have the tool."""
        return next((name for name, each in self.names.items() if each is tool), "") or _stranger(
            tool
        )

    def function_of(self, tool: Tool) -> Function:
        """The tool as a function. Raises `KeyError` if the set does not have the tool."""
        return self._every[self.name_of(tool)]

    def with_tools(self, tools: Iterable[Tool]) -> "FunctionSet":
        """The same with more of the set's tools offered."""
        more = [self.function_of(tool) for tool in tools]
        return replace(
            self,
            offered=(*self.offered, *more),
            tokens=self.tokens + _tokens(more),
        )


def function_set(tools: ToolSet) -> FunctionSet:
    """Make the functions of a set's tools; the visible ones are offered. Names that the API does
    not accept are written in ASCII."""
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
    """The tool's name in code. A plugin's name before it is left out if only a name of Python
    required it: natively called functions cannot hide names of Python."""
    tool = named.tool
    if tool.name == dotted_name(tool) and tools.resolve(tool.python_name) is None:
        return tool.python_name
    return named.name


def _fitting(name: str, tool: Tool, taken: Mapping[str, Tool]) -> str:
    """A unique name of at most 64 ASCII letters, digits, ``_`` and ``-``."""
    if _UNFIT.search(name):
        # A Python name may be Chinese; its plugin's short name tells more than underscores.
        name = _UNFIT.sub("", name).strip("_") or f"{tool.module}_function"
        name = _UNFIT.sub("_", name)
    fitting = name[:_MAX_NAME]
    number = 2
    while fitting in taken:
        ending = f"_{number}"
        fitting = f"{name[: _MAX_NAME - len(ending)]}{ending}"
        number += 1
    return fitting
