"""Builds grammars for constrained decoding from a small tree of rules, and writes them as GBNF.

GBNF is the notation of llama.cpp (its ``grammars/README.md``). Rules are values: a test can walk
them, and `render` writes them as text for a model's server.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from nekro_core.system.errors import NekroError

MAX_REPEAT = 2000
"""llama.cpp refuses a repetition with a larger bound."""

_RULE_NAME = re.compile(r"[a-z][a-z0-9-]*\Z")


class GrammarError(NekroError, ValueError):
    """A rule is missing, misnamed or out of bounds; says which."""


@dataclass(frozen=True, slots=True)
class LiteralText:
    """Exactly these characters."""

    text: str


@dataclass(frozen=True, slots=True)
class CharacterRange:
    """One character of (or, negated, outside) inclusive ranges of code points."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class SequenceRule:
    """The parts one after another."""

    parts: tuple["Rule", ...]


@dataclass(frozen=True, slots=True)
class ChoiceRule:
    """Any one of the options."""

    options: tuple["Rule", ...]


@dataclass(frozen=True, slots=True)
class RepeatRule:
    """A rule repeated ``least`` to ``most`` times."""

    rule: "Rule"
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class RuleRef:
    """A reference to a named rule."""

    name: str


Rule = LiteralText | CharacterRange | SequenceRule | ChoiceRule | RepeatRule | RuleRef


def seq(*parts: Rule | str) -> Rule:
    """The parts one after another; a plain string matches itself."""
    rules = tuple(LiteralText(part) if isinstance(part, str) else part for part in parts)
    return rules[0] if len(rules) == 1 else SequenceRule(rules)


def choice(*options: Rule | str) -> Rule:
    """Any one of the options; a plain string matches itself."""
    rules = tuple(LiteralText(option) if isinstance(option, str) else option for option in options)
    return rules[0] if len(rules) == 1 else ChoiceRule(rules)


def optional(rule: Rule | str) -> Rule:
    """The rule or nothing."""
    return RepeatRule(seq(rule), 0, 1)


def render(rules: Mapping[str, Rule]) -> str:
    """Write named rules, which include ``root``, as GBNF. Raises `GrammarError`."""
    if "root" not in rules:
        raise GrammarError("a grammar needs a rule named 'root'")
    for name in rules:
        if not _RULE_NAME.match(name):
            raise GrammarError(f"rule name {name!r}: expected a-z, 0-9 and '-', a letter first")
    return "".join(f"{name} ::= {_render(rule, rules)}\n" for name, rule in rules.items())


def _render(rule: Rule, rules: Mapping[str, Rule]) -> str:
    match rule:
        case LiteralText():
            return '"' + "".join(map(_escape, rule.text)) + '"'
        case CharacterRange():
            spans = "".join(
                _escape(first) if first == last else f"{_escape(first)}-{_escape(last)}"
                for first, last in rule.ranges
            )
            return f"[{'^' if rule.negated else ''}{spans}]"
        case SequenceRule():
            return "(" + " ".join(_render(part, rules) for part in rule.parts) + ")"
        case ChoiceRule():
            return "(" + " | ".join(_render(option, rules) for option in rule.options) + ")"
        case RepeatRule():
            if not 0 <= rule.least <= rule.most <= MAX_REPEAT:
                raise GrammarError(
                    f"repetition {rule.least} to {rule.most}: expected 0 to {MAX_REPEAT}"
                )
            body = _render(rule.rule, rules)
            if (rule.least, rule.most) == (0, 1):
                return f"({body})?"
            return f"({body}){{{rule.least},{rule.most}}}"
        case RuleRef():
            if rule.name not in rules:
                raise GrammarError(f"rule {rule.name!r} is used but not given")
            return rule.name
        case _:
            assert_never(rule)


def _escape(character: str) -> str:
    if character.isascii() and character.isalnum():
        return character
    code = ord(character)
    if character in " _.,:;=+*/()<>{}!?#$%&@'~`|":
        return character
    if code <= 0xFF:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"
