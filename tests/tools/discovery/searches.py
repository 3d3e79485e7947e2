"""Reads the test sets for the tool search. A set has queries, each with the tool that it should
find, and the tools.

Different authors wrote the tools (discovery_tools.toml) and the queries (discovery_queries.toml).
The queries were written before the search had its ranking, so they do not favour it. Each later set
was committed before it was run for the first time; docs/decisions/0018 and 0028 give the results of
these first runs. The seventh set adds tools, which are searched together with all the others.
"""

import tomllib
from pathlib import Path
from typing import Any

from nekro_core.tools.names import ToolSet, tool_set
from nekro_core.tools.tool import Tool, ToolKind

_HERE = Path(__file__).parent
SETS = ("", "_second", "_third", "_fourth", "_fifth", "_sixth", "_seventh")
"""The suffixes of the file names of the sets."""
_WITH_MORE_TOOLS = "_seventh"
Search = tuple[str, str]
"""A query and the name of the tool that it should find."""


def a_tool(name: str, description: str, module: str = "some") -> Tool:
    """A tool for tests in which only its texts matter."""
    return Tool(
        name=name,
        python_name=name,
        module=module,
        owner=f"ann.{module}",
        kind=ToolKind.TOOL,
        handler=_nothing,
        description=description,
        summary=description,
    )


def known_tools(searched: str = "") -> ToolSet:
    """The tools that the searches of one set search."""
    names = ["discovery_tools"]
    if searched == _WITH_MORE_TOOLS:
        names.append(f"discovery_tools{searched}")
    plugins = [plugin for name in names for plugin in _read(name).items()]
    return tool_set(
        a_tool(name, description, module)
        for module, tools in plugins
        for name, description in tools.items()
    )


def searches(searched: str) -> list[Search]:
    """The searches of one set."""
    return [(each["text"], each["tool"]) for each in _read(f"discovery_queries{searched}")["query"]]


def tuning_searches() -> list[Search]:
    """Return the searches on which the weights were tuned. The author of the tools and the lexicon
    wrote these searches."""
    return _lines("discovery_tuning")


def searches_for_names() -> list[Search]:
    """Searches for names in katakana among the tools of the seventh set."""
    return _lines("discovery_names")


async def _nothing(_ctx: Any) -> None:
    """Nothing."""


def _lines(name: str) -> list[Search]:
    lines = (_HERE / f"{name}.tsv").read_text("utf-8").splitlines()
    cases = [line.split("\t") for line in lines if not line.startswith("#")]
    return [(query, tool) for query, tool in cases]


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((_HERE / f"{name}.toml").read_text("utf-8"))
