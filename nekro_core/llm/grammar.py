"""Builds a grammar from the signatures of tools. Every text that the grammar allows is valid Python
and calls only existing tools.

The grammar allows a small part of Python: a few calls, one on each line, with literals as
arguments. If the caller asks for this, a text that is a required argument may contain expressions,
which Python computes. Every required argument is present, no argument is repeated, and each
argument has the JSON type that its parameter's schema names. A small model may write without end,
so the grammar limits the length of each part. A text that reaches a limit is still valid Python.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from nekro_core.llm.expression_rules import expression_rules
from nekro_core.llm.gbnf import (
    CharacterRange,
    LiteralText,
    RepeatRule,
    Rule,
    RuleRef,
    choice,
    optional,
    render,
    seq,
)
from nekro_core.tools.names import NamedTool
from nekro_core.tools.tool import Parameter

MAX_CALLS = 4
"""Maximum number of calls of one reply. A model that makes more calls is repeating itself."""
MAX_TEXT = 400
"""Maximum number of characters of a string literal."""
MAX_INNER_TEXT = 60
"""Maximum number of characters of a string inside a list or mapping, such as a label or a name."""
MAX_ITEMS = 24
"""Maximum number of elements of a list or mapping."""
MAX_DEPTH = 6
"""Maximum number of levels of nested schemas. A deeper value must be a plain scalar."""

_DIGITS = CharacterRange((("0", "9"),))
_POSITIVE = seq(CharacterRange((("1", "9"),)), RepeatRule(_DIGITS, 0, 8))
_QUOTE, _BACKSLASH = ('"', '"'), ("\\", "\\")
_CONTROLS = (("\x00", "\x1f"), ("\x7f", "\x9f"), ("\u2028", "\u2029"))
_SHARED: Mapping[str, Rule] = {
    "char": choice(
        CharacterRange((_QUOTE, _BACKSLASH, *_CONTROLS), negated=True),
        seq("\\", CharacterRange((("n", "n"), _QUOTE, _BACKSLASH))),
    ),
    "natural": choice("0", _POSITIVE),
    "decimal": seq(RuleRef("natural"), optional(seq(".", RepeatRule(_DIGITS, 1, 6)))),
    "scalar": choice(
        seq('"', RepeatRule(RuleRef("char"), 1, MAX_INNER_TEXT), '"'),
        seq(optional("-"), RuleRef("decimal")),
        "True",
        "False",
        "None",
    ),
}


def call_grammar(
    tools: Sequence[NamedTool],
    *,
    max_calls: int = MAX_CALLS,
    computes_in: str = "",
    first: Collection[str] = (),
) -> str:
    """Return GBNF that accepts one to ``max_calls`` calls of these tools. Raises `ValueError` if
    ``tools`` is empty.

    If ``computes_in`` is a language (``en``, ``zh``, ``ja``), texts that are required arguments may
    contain expressions. Dates in these expressions are written in this language. If ``first`` has
    names of tools, the first call must be of one of these tools. ``tools`` may contain a tool
    several times with different schemas. Then a call that fits any of these schemas is accepted.
    """
    return render(call_rules(tools, max_calls=max_calls, computes_in=computes_in, first=first))


def call_rules(
    tools: Sequence[NamedTool],
    *,
    max_calls: int = MAX_CALLS,
    computes_in: str = "",
    first: Collection[str] = (),
) -> dict[str, Rule]:
    """Return the rules that `call_grammar` writes as GBNF, by their names. It has the same
    arguments."""
    if not tools:
        raise ValueError("a grammar of calls needs at least one tool")
    calls = {RuleRef(f"call-{number}"): each for number, each in enumerate(tools)}
    begins = [rule for rule, each in calls.items() if not {*each.names}.isdisjoint(first)]
    more = RepeatRule(seq("\n", RuleRef("call")), 0, max_calls - 1)
    rules: dict[str, Rule] = {
        "root": seq(RuleRef("first-call" if begins else "call"), more),
        "call": choice(*calls),
    }
    if begins:
        rules["first-call"] = choice(*begins)
    for number, named in enumerate(tools):
        arguments = _Arguments(f"call-{number}", named.tool.parameters, bool(computes_in))
        rules[f"call-{number}"] = seq(f"{named.name}(", arguments.start, ")")
        rules |= arguments.rules
    if computes_in:
        rules |= expression_rules(computes_in, {name for each in tools for name in each.names})
    return {**rules, **_SHARED}


class _Written(Enum):
    """The kind of arguments that an argument list has so far. The kind decides whether the next
    argument may be positional, and whether it needs a comma."""

    NOTHING = "n"
    POSITIONAL = "p"
    NAMED = "k"
    NOTHING_BUT_SKIPPED = "s"
    """The list is empty, but an optional argument was left out, so the next argument must be
    named."""


class _Arguments:
    """The rules of one argument list. There is one rule for each combination of a parameter and a
    `_Written` state before this parameter."""

    def __init__(self, prefix: str, parameters: Sequence[Parameter], computes: bool) -> None:
        self.rules: dict[str, Rule] = {}
        self._prefix = prefix
        self._parameters = [each for each in parameters if not each.variadic]
        for place, parameter in enumerate(self._parameters):
            name = f"{prefix}-v{place}"
            values = _Values(name, parameter.schema).rules
            if computes and parameter.required and _is_free_text(parameter.schema):
                values[name] = choice(values[name], RuleRef("computed-text"))
            self.rules |= values
        self.start = self._from(0, _Written.NOTHING)

    def _from(self, place: int, written: _Written) -> Rule:
        if place == len(self._parameters):
            return LiteralText("")
        name = f"{self._prefix}-{written.value}{place}"
        if name not in self.rules:
            self.rules[name] = choice(*self._options(place, written))
        return RuleRef(name)

    def _options(self, place: int, written: _Written) -> Iterator[Rule]:
        parameter = self._parameters[place]
        value = RuleRef(f"{self._prefix}-v{place}")
        comma = ", " if written in (_Written.POSITIONAL, _Written.NAMED) else ""
        if written in (_Written.NOTHING, _Written.POSITIONAL) and not parameter.keyword_only:
            yield seq(comma, value, self._from(place + 1, _Written.POSITIONAL))
        yield seq(f"{comma}{parameter.name}=", value, self._from(place + 1, _Written.NAMED))
        if not parameter.required:
            empty = written in (_Written.NOTHING, _Written.NOTHING_BUT_SKIPPED)
            skipped = _Written.NOTHING_BUT_SKIPPED if empty else _Written.NAMED
            yield self._from(place + 1, skipped)


class _Values:
    """The rules for literals of one parameter's schema. References are looked up in its ``$defs``.

    Each repetition is a separate rule, because llama.cpp expands repetitions: if they were nested
    in one rule, their bounds would multiply and exceed llama.cpp's limit.
    """

    def __init__(self, name: str, schema: Mapping[str, Any]) -> None:
        self._name = name
        self._definitions: Mapping[str, Any] = schema.get("$defs", {})
        self.rules: dict[str, Rule] = {}
        # Reserve the first place in the dictionary for this rule, which is made last. The name of
        # each inner rule contains the number of rules before it.
        self.rules[name] = LiteralText("")
        self.rules[name] = self._rule(schema, 0, MAX_TEXT)

    def _rule(self, schema: Mapping[str, Any], depth: int, longest: int) -> Rule:
        """Return the rule for Python literals of the values that a JSON Schema allows. ``depth`` is
        the number of schemas around this one, ``longest`` the largest number of characters of a
        string."""
        if depth > MAX_DEPTH:
            return RuleRef("scalar")
        if "$ref" in schema:
            name = str(schema["$ref"]).rpartition("/")[2]
            return self._rule(self._definitions.get(name, {}), depth + 1, longest)
        if "const" in schema:
            return LiteralText(_literal(schema["const"]))
        if "enum" in schema:
            return choice(*map(_literal, schema["enum"]))
        options = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(kinds := schema.get("type"), list):
            options = [{**schema, "type": kind} for kind in kinds]
        if options:
            return choice(*(self._rule(option, depth + 1, longest) for option in options))
        return self._typed(schema, depth, longest)

    def _typed(self, schema: Mapping[str, Any], depth: int, longest: int) -> Rule:
        match schema.get("type"):
            case "string":
                most = min(schema.get("maxLength", longest), longest)
                # An empty string is not allowed: a small model writes one only by mistake.
                return self._text(min(max(schema.get("minLength", 1), 1), most), most)
            case "integer":
                return _POSITIVE if _least(schema) >= 1 else seq(_sign(schema), RuleRef("natural"))
            case "number":
                return seq(_sign(schema), RuleRef("decimal"))
            case "boolean":
                return choice("True", "False")
            case "null":
                return LiteralText("None")
            case "array":
                return self._array(schema, depth)
            case "object":
                return self._object(schema, depth)
            case _:
                scalars = self._listed(RuleRef("scalar"), 0, MAX_ITEMS)
                return choice(RuleRef("scalar"), seq("[", scalars, "]"))

    def _array(self, schema: Mapping[str, Any], depth: int) -> Rule:
        if items := schema.get("prefixItems"):
            rules = [self._rule(item, depth + 1, MAX_INNER_TEXT) for item in items]
            return seq("[", rules[0], *(seq(", ", rule) for rule in rules[1:]), "]")
        item = self._rule(schema.get("items", {}), depth + 1, MAX_INNER_TEXT)
        most = min(schema.get("maxItems", MAX_ITEMS), MAX_ITEMS)
        return seq("[", self._listed(item, min(schema.get("minItems", 1), most), most), "]")

    def _object(self, schema: Mapping[str, Any], depth: int) -> Rule:
        if properties := schema.get("properties"):
            # Require all properties, in order. An object with known fields is short enough for
            # this.
            pairs = [
                seq(f"{_literal(name)}: ", self._rule(each, depth + 1, MAX_INNER_TEXT))
                for name, each in properties.items()
            ]
            return seq("{", pairs[0], *(seq(", ", pair) for pair in pairs[1:]), "}")
        values = schema.get("additionalProperties")
        value = self._rule(values if isinstance(values, Mapping) else {}, depth + 1, MAX_INNER_TEXT)
        pair = seq(self._text(1, MAX_INNER_TEXT), ": ", value)
        return seq("{", self._listed(pair, 1, MAX_ITEMS), "}")

    def _text(self, least: int, most: int) -> Rule:
        return self._apart(seq('"', RepeatRule(RuleRef("char"), least, most), '"'))

    def _listed(self, item: Rule, least: int, most: int) -> Rule:
        """Return the rule for ``least`` to ``most`` items with commas between them."""
        if most == 0:
            return LiteralText("")
        more = RepeatRule(self._apart(seq(", ", item)), max(least - 1, 0), most - 1)
        filled = self._apart(seq(item, more))
        return filled if least else optional(filled)

    def _apart(self, rule: Rule) -> Rule:
        name = f"{self._name}-{len(self.rules)}"
        self.rules[name] = rule
        return RuleRef(name)


def _is_free_text(schema: Mapping[str, Any]) -> bool:
    limits = ("enum", "const", "maxLength", "pattern", "format")
    return schema.get("type") == "string" and not any(each in schema for each in limits)


def _sign(schema: Mapping[str, Any]) -> Rule:
    return LiteralText("") if _least(schema) >= 0 else optional("-")


def _least(schema: Mapping[str, Any]) -> float:
    """Return the lower bound of a number. The grammar uses only its sign; the tool checks the exact
    bound."""
    if "minimum" in schema:
        return float(schema["minimum"])
    return float(schema.get("exclusiveMinimum", -2)) + 1


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
