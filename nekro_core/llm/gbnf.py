"""Builds grammars for constrained decoding from a small tree of rules, and writes them as GBNF.

GBNF is the notation of llama.cpp (see its ``grammars/README.md``). Rules are Python values, so a
test can walk through them. `render` writes them as text for a model's server.
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
    """A rule is missing, has an invalid name, or has a wrong bound. The text names the rule."""


@dataclass(frozen=True, slots=True)
class LiteralText:
    """Matches exactly ``text``."""

    text: str


@dataclass(frozen=True, slots=True)
class CharacterRange:
    """Matches one character in ``ranges``, which are inclusive. If ``negated``, it matches one
    character outside them."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class SequenceRule:
    """Matches all parts, one after another."""

    parts: tuple["Rule", ...]


@dataclass(frozen=True, slots=True)
class ChoiceRule:
    """Matches one of the options."""

    options: tuple["Rule", ...]


@dataclass(frozen=True, slots=True)
class RepeatRule:
    """Matches a rule ``least`` to ``most`` times."""

    rule: "Rule"
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class RuleRef:
    """A reference to a named rule."""

    name: str


Rule = LiteralText | CharacterRange | SequenceRule | ChoiceRule | RepeatRule | RuleRef


def seq(*parts: Rule | str) -> Rule:
    """Return a rule that matches all parts, one after another. A plain string matches itself."""
    rules = tuple(LiteralText(part) if isinstance(part, str) else part for part in parts)
    return rules[0] if len(rules) == 1 else SequenceRule(rules)


def choice(*options: Rule | str) -> Rule:
    """Return a rule that matches one of the options. A plain string matches itself."""
    rules = tuple(LiteralText(option) if isinstance(option, str) else option for option in options)
    return rules[0] if len(rules) == 1 else ChoiceRule(rules)


def optional(rule: Rule | str) -> Rule:
    """Return a rule that matches ``rule`` or an empty text."""
    return RepeatRule(seq(rule), 0, 1)


def render(rules: Mapping[str, Rule]) -> str:
    """Write named rules as GBNF. One of them must be ``root``. Raises `GrammarError`."""
    if "root" not in rules:
        raise GrammarError("a grammar needs a rule named 'root'")
    for name in rules:
        if not _RULE_NAME.match(name):
            raise GrammarError(f"rule name {name!r}: expected a letter a-z, then a-z, 0-9 or '-'")
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
                raise GrammarError(f"rule {rule.name!r} is used but not defined")
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
