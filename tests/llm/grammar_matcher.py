"""Says whether a text is accepted by the rules of a grammar, as a model's server would."""

from collections.abc import Mapping

from nekro_core.llm.gbnf import (
    CharacterRange,
    ChoiceRule,
    LiteralText,
    RepeatRule,
    Rule,
    RuleRef,
    SequenceRule,
)


def accepts(rules: Mapping[str, Rule], text: str, start: str = "root") -> bool:
    """Whether the whole text can be derived from the rule ``start``."""
    return len(text) in _Matcher(rules, text).ends(RuleRef(start), 0)


class _Matcher:
    """Finds all positions at which a rule that begins at a position may end."""

    def __init__(self, rules: Mapping[str, Rule], text: str) -> None:
        self._rules = rules
        self._text = text
        self._known: dict[tuple[Rule, int], frozenset[int]] = {}

    def ends(self, rule: Rule, place: int) -> frozenset[int]:
        key = (rule, place)
        if key not in self._known:
            self._known[key] = frozenset(self._ends(rule, place))
        return self._known[key]

    def _ends(self, rule: Rule, place: int) -> set[int]:
        match rule:
            case LiteralText(text):
                return {place + len(text)} if self._text.startswith(text, place) else set()
            case CharacterRange(ranges, negated):
                if place >= len(self._text):
                    return set()
                found = any(first <= self._text[place] <= last for first, last in ranges)
                return {place + 1} if found != negated else set()
            case RuleRef(name):
                return set(self.ends(self._rules[name], place))
            case ChoiceRule(options):
                return {end for option in options for end in self.ends(option, place)}
            case SequenceRule(parts):
                places = {place}
                for part in parts:
                    places = {end for each in places for end in self.ends(part, each)}
                return places
            case RepeatRule(inner, least, most):
                places, ended = {place}, {place} if least == 0 else set()
                for number in range(1, most + 1):
                    places = {end for each in places for end in self.ends(inner, each)}
                    if not places:
                        break
                    if number >= least:
                        ended |= places
                return ended
