"""Makes tools for tests from real functions."""

from collections.abc import Awaitable, Callable
from typing import Any

from nekro_core.tools.describe import describe
from nekro_core.tools.tool import Tool, ToolKind


def tool_of(
    function: Callable[..., Awaitable[Any]],
    kind: ToolKind = ToolKind.TOOL,
    *,
    name: str = "",
    module: str = "mod",
    owner: str = "ann.mod",
    **options: Any,
) -> Tool:
    """The tool of a function. If the function is refused, the test fails with the reason."""
    name = name or function.__name__
    described = describe(function, kind, name=name, module=module, owner=owner, **options)
    assert described.tool is not None, described.problems
    return described.tool


def named_tool(name: str, python_name: str, owner: str) -> Tool:
    """A tool for tests in which only its names matter."""

    async def function(_ctx: Any) -> None:
        """Nothing."""

    function.__name__ = python_name
    return tool_of(function, name=name, module=owner.rpartition(".")[2], owner=owner)
