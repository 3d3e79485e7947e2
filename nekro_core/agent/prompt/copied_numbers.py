"""Restricts the numbers in a small model's calls to numbers that the question contains. This
applies to the parameters whose numbers in the worked examples also come from the questions.

For example, in each worked example that draws a chart, the question contains all values of the
chart. So a small model may write only values from the question, and cannot draw a chart if the
question has no number. For dice, some examples write 6 or 2 sides although the question does not.
So these two numbers are allowed too. If two lists, such as labels and values, have the same length
in each example, they must have the same length in the answer.
"""

import ast
import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nekro_core.agent.prompt.question_numbers import numbers_in
from nekro_core.agent.prompt.shown_arguments import calls_of
from nekro_core.tools.names import NamedTool
from nekro_core.tools.tool import Parameter

_MIN_EXAMPLES = 8
"""Minimum number of examples that must give a parameter a value before its numbers are
restricted."""
_MAX_UNASKED = 8
"""Maximum number of different numbers of a parameter that are in examples' calls but not in their
questions. If there are more, the parameter's numbers are not restricted."""
_MAX_LENGTH = 12
"""Maximum number of numbers in a question for which the same length of the lists is required. The
grammar gets a separate rule for each possible length, so more lengths would make it too long."""
_NUMBERS = ("integer", "number")


@dataclass(frozen=True, slots=True)
class CopiedNumbers:
    """The restrictions that follow from the worked examples of one tool.

    Attributes:
        named: The tool.
        unasked: The parameters whose numbers are restricted, by name. The value has the numbers
            that are allowed although the question does not contain them.
        paired: The parameters whose lists have the same length.
    """

    named: NamedTool
    unasked: Mapping[str, frozenset[float]]
    paired: frozenset[str]

    def allowed(self, numbers: Sequence[float]) -> Iterator[NamedTool]:
        """Yield the tool with its parameters restricted to the numbers of a question. If the tool
        has paired lists, yield it once for each possible length of the lists. Yield nothing if no
        number is possible for a required parameter."""
        parameters = []
        for each in self.named.tool.parameters:
            limited = self._limited(each, numbers)
            if limited is None:
                return
            parameters.append(limited)
        if not self.paired or not 0 < len(numbers) <= _MAX_LENGTH:
            yield self._with(parameters)
            return
        for length in range(1, len(numbers) + 1):
            yield self._with(
                [
                    _with_schema(each, minItems=length, maxItems=length)
                    if each.name in self.paired
                    else each
                    for each in parameters
                ]
            )

    def _with(self, parameters: Sequence[Parameter]) -> NamedTool:
        return NamedTool(replace(self.named.tool, parameters=tuple(parameters)), self.named.names)

    def _limited(self, parameter: Parameter, numbers: Collection[float]) -> Parameter | None:
        unasked = self.unasked.get(parameter.name)
        if unasked is None:
            return parameter
        schema = parameter.schema
        listed = schema.get("type") == "array"
        item = schema["items"] if listed else schema
        possible = sorted({*unasked, *numbers})
        possible = [each for each in possible if _fits(each, item)]
        if not possible:
            return None if parameter.required else parameter
        written = [int(each) if each.is_integer() else each for each in possible]
        if listed:
            return _with_schema(parameter, items={**item, "enum": written})
        return _with_schema(parameter, enum=written)


def copied_numbers(named: NamedTool) -> CopiedNumbers:
    """Find out from the worked examples of a tool how its numbers are restricted."""
    parameters = named.tool.parameters
    numeric = [each.name for each in parameters if _is_numeric(each.schema)]
    lists = [each.name for each in parameters if each.schema.get("type") == "array"]
    if not numeric:
        return CopiedNumbers(named, {}, frozenset())
    calls = [
        (set(numbers_in(example.says)), _literals(call))
        for example in named.tool.examples
        for call in calls_of(named, example)
    ]
    unasked: dict[str, frozenset[float]] = {}
    for name in numeric:
        filled = [(asked, {*_flat(given[name])}) for asked, given in calls if name in given]
        own = frozenset(number for asked, given in filled for number in given - asked)
        if len(filled) >= _MIN_EXAMPLES and len(own) <= _MAX_UNASKED:
            unasked[name] = own
    both = [given for _, given in calls if all(isinstance(given.get(n), list) for n in lists)]
    same = all(len({len(given[name]) for name in lists}) == 1 for given in both)
    paired = len(lists) > 1 and len(both) >= _MIN_EXAMPLES and same
    return CopiedNumbers(named, unasked, frozenset(lists if paired else ()))


def _literals(call: Mapping[str, ast.expr]) -> Mapping[str, Any]:
    """Return the values of the arguments that are literals. Arguments that Python must compute are
    left out."""
    found = {}
    for name, value in call.items():
        with contextlib.suppress(ValueError):
            found[name] = ast.literal_eval(value)
    return found


def _is_numeric(schema: Mapping[str, Any]) -> bool:
    if schema.get("type") == "array":
        items = schema.get("items", {})
        return items.get("type") in _NUMBERS and "enum" not in items
    return schema.get("type") in _NUMBERS and "enum" not in schema


def _flat(value: Any) -> list[float]:
    numbers = value if isinstance(value, list) else [value]
    return [float(each) for each in numbers if isinstance(each, int | float)]


def _fits(number: float, schema: Mapping[str, Any]) -> bool:
    if schema["type"] == "integer" and not number.is_integer():
        return False
    low, high = schema.get("minimum", number), schema.get("maximum", number)
    return bool(low <= number <= high)


def _with_schema(parameter: Parameter, **more: Any) -> Parameter:
    return replace(parameter, schema={**parameter.schema, **more})
