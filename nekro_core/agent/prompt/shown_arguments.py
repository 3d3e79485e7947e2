"""Offers a small model only those optional arguments of a tool that the examples before the
question use.

The examples that are most like a question usually fill the same arguments as the right answer. For
example, the examples that are like "what did Tom say about the budget?" fill the author and the
words, and the examples that are like "the last 3 messages" fill the number. An argument that all
shown examples fill becomes required, and an argument that none of them fills is not offered. So a
small model neither forgets an argument nor adds one.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nekro_core.tools.names import NamedTool
from nekro_core.tools.tool import REQUIRED, Example, Parameter

_MIN_SHOWN = 3
"""Minimum number of calls of the tool in the shown examples. Fewer calls do not show a pattern, so
then all optional arguments are offered."""


def with_shown_arguments(named: NamedTool, shown: Sequence[Example]) -> NamedTool:
    """Return the tool with the parameters that the examples before the question use. The model must
    write optional arguments with their names, because an argument before them may be left out."""
    calls = [call for example in shown for call in calls_of(named, example)]
    parameters = tuple(_offered(named.tool.parameters, calls))
    return NamedTool(replace(named.tool, parameters=parameters), named.names)


def _offered(
    parameters: Sequence[Parameter], calls: Sequence[Mapping[str, ast.expr]]
) -> Iterator[Parameter]:
    for each in parameters:
        filled = sum(each.name in call for call in calls)
        if each.required or each.variadic:
            yield each
        elif len(calls) < _MIN_SHOWN or 0 < filled < len(calls):
            yield replace(each, keyword_only=True)
        elif filled:
            yield replace(each, keyword_only=True, default=REQUIRED)


def called_name(call: ast.Call) -> str:
    """Return the name of a called function, with dots if the code has them."""
    # Do not unparse a simple name: `ast.unparse` takes longer than parsing the example did.
    return call.func.id if isinstance(call.func, ast.Name) else ast.unparse(call.func)


def calls_of(named: NamedTool, example: Example) -> Iterator[Mapping[str, ast.expr]]:
    """Yield the arguments of each call of the tool in an example. The keys are the names of the
    parameters."""
    names = [each.name for each in named.tool.parameters]
    for statement in ast.parse(example.code).body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and called_name(call) in named.names:
            yield {
                **dict(zip(names, call.args, strict=False)),
                **{each.arg: each.value for each in call.keywords if each.arg},
            }
