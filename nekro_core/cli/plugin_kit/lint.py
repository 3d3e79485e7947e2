"""Finds common mistakes in a plugin's source and in its tools."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from nekro_core.plugins.installation.inspection import python_files
from nekro_core.tools.examples import all_examples
from nekro_core.tools.problem import PluginProblem, ProblemSeverity
from nekro_core.tools.tool import Tool, Visibility

LANGUAGES = ("en", "zh", "ja")
LONG_TOOL = 500
"""A tool with more than this number of tokens gets a warning, because a prompt contains dozens of
tools, and the model reads all of them in each request."""

_BLOCKING = frozenset(
    {
        "time.sleep", "input", "os.system", "urllib.request.urlopen", "subprocess.run",
        "subprocess.call", "subprocess.check_call", "subprocess.check_output",
    }
)  # fmt: skip
_BLOCKING_MODULES = frozenset({"requests"})


def blocking_calls(plugin: Path) -> Iterator[PluginProblem]:
    """Find blocking calls in an ``async def``. While such a call runs, every chat waits."""
    for path in python_files(plugin):
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue  # the loader reports it
        for function in ast.walk(tree):
            if isinstance(function, ast.AsyncFunctionDef):
                for call in _calls_of(function):
                    name = ast.unparse(call.func)
                    if name in _BLOCKING or name.partition(".")[0] in _BLOCKING_MODULES:
                        yield PluginProblem(
                            severity=ProblemSeverity.WARNING,
                            message=f"{name}() waits, and every chat waits with it",
                            where=f"{path}:{call.lineno}",
                            remedy="await the asynchronous kind (httpx.AsyncClient, anyio.sleep, "
                            "anyio.run_process), or await anyio.to_thread.run_sync(...)",
                        )


def _calls_of(function: ast.AsyncFunctionDef) -> Iterator[ast.Call]:
    """Yield the calls in the body of a function, without the calls in functions and classes that
    are defined inside it."""
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Call):
            yield node
        waiting.extend(ast.iter_child_nodes(node))


def tool_advice(
    tools: Sequence[Tool], costs: Sequence[int], *, can_teach: bool = True
) -> Iterator[PluginProblem]:
    """Find missing examples, long docstrings and parameters without a description. ``costs`` has
    the number of tokens of each tool in a prompt. ``can_teach`` is false for a plugin written for
    another bot, because its format has no examples."""
    if can_teach:
        yield from _untaught(tools)
    for tool, cost in zip(tools, costs, strict=True):
        if cost > LONG_TOOL:
            yield PluginProblem(
                severity=ProblemSeverity.WARNING,
                message=f"{tool.name}: {cost} tokens of every prompt",
                where=tool.where,
                remedy="shorten its docstring",
            )
        told = f"{tool.description} {tool.summary} {tool.details}"
        bare = [each.name for each in tool.parameters if not each.description]
        bare = [name for name in bare if name not in told]
        if bare:
            yield PluginProblem(
                severity=ProblemSeverity.WARNING,
                message=f"{tool.name}: nothing says what {', '.join(bare)} means",
                where=tool.where,
                remedy="describe it under Args in the docstring",
            )


def _untaught(tools: Sequence[Tool]) -> Iterator[PluginProblem]:
    """Yield one warning for all tools that have no example in one of the languages."""
    missing: dict[str, list[str]] = {}
    for tool in tools:
        taught = {example.language for example in all_examples(tool)}
        languages = ", ".join(language for language in LANGUAGES if language not in taught)
        if languages and tool.visibility is Visibility.VISIBLE and tool.for_small_models:
            missing.setdefault(languages, []).append(tool.name)
    if missing:
        told = "; ".join(
            f"in {languages}: {', '.join(names)}" for languages, names in missing.items()
        )
        yield PluginProblem(
            severity=ProblemSeverity.WARNING,
            message=f"no worked example {told}. The built-in small model learns from nothing else",
            remedy="add to the docstrings' Example: '# User: what a person says', below it the "
            "call",
        )
