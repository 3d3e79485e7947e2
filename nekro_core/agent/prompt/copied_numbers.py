"""Restricts the numbers of calls to those that the person wrote, where the examples teach that.

In each example of a chart, all values stand in the question. So a small model may write no other
values, and without a number in the question no chart. The sides of dice stand in the question too,
or are 6 or 2: numbers that some examples write although the person did not. Lists that have the
same length in all examples, such as labels and values, must have it in the answer.
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
"""Minimum number of examples that must fill a parameter before anything is learned from them."""
_MAX_UNASKED = 8
"""If the examples write more different numbers of their own than this, numbers are not copied."""
_MAX_LENGTH = 12
"""Maximum length of lists for which the same length is required. Each length makes the grammar
longer."""
_NUMBERS = ("integer", "number")


@dataclass(frozen=True, slots=True)
class CopiedNumbers:
    """What the examples teach about one tool.

    Attributes:
        named: The tool.
        unasked: For each parameter whose numbers are copied, the numbers that its examples write
            although the person did not.
        paired: The parameters whose lists have the same length.
    """

    named: NamedTool
    unasked: Mapping[str, frozenset[float]]
    paired: frozenset[str]

    def allowed(self, numbers: Sequence[float]) -> Iterator[NamedTool]:
        """Yield the tool with the parameters that fit a question with these numbers: once, or once
        for each length of the paired lists, or not at all if a required number is missing."""
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
    """Learn from the examples of a tool."""
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
    """Return the arguments without those that are computed."""
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
