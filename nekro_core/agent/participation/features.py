"""Turns the facts about a new line and a person into the numbers that the learnt trees read."""

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from nekro_core.agent.participation.conversation import Conversation, SpokenLine
from nekro_core.agent.participation.facts import FAR, FAR_S, Facts, PersonFacts
from nekro_core.agent.participation.feature_names import LAST_CUES
from nekro_core.agent.participation.line_text import CUE_NAMES

_LAST_CUES = tuple(CUE_NAMES.index(name) for name in LAST_CUES)
_TYPED = 6.0
"""Number of characters that a person types in a second, if they are fast."""
_NEVER = -1.0


def _log(value: float) -> float:
    return math.log1p(max(0.0, value))


def _to(names: frozenset[str], who: str) -> float:
    return 0.0 if not names else (1.0 if who in names else 2.0)


def line_numbers(conversation: Conversation, line: SpokenLine, facts: Facts) -> list[float]:
    """Compute the `LINE_FEATURES`."""
    own = facts.own
    last = own[0] if own else None
    before = frozenset[str]().union(*(heard.line.text.words for _, _, heard in own[:3]))
    people = facts.people.values()
    return [
        *line.text.numbers,
        float(len(line.named)),
        float(bool(line.first_named)),
        float(len(own)),
        float(last[0] if last else FAR),
        _log(last[1] if last else FAR_S),
        float(last[2].line.text.asks) if last else _NEVER,
        float(bool(last[2].line.named)) if last else _NEVER,
        float(sum(seconds <= 120 for _, seconds, _ in own)),
        sum(heard.line.text.asks for _, _, heard in own) / max(1, len(own)),
        _log(facts.first_ago),
        float(facts.of_ten),
        float(facts.active),
        float(len(facts.nearby)),
        float(facts.in_a_minute),
        float(sum(each.named_by_speaker > 0 for each in people)),
        float(sum(each.named_speaker > 0 for each in people)),
        float(sum(each.named_speaker for each in people)),
        conversation.shared(line.text.words, before),
        facts.own_namings / max(1, len(own)),
        float(facts.own_commands),
        conversation.shared(line.text.words, facts.words),
        float(last[2].line.text.commands) if last else _NEVER,
        float(sum(facts.people[who].question is not None for who in facts.nearby)),
    ]


def person_numbers(
    conversation: Conversation, line: SpokenLine, facts: Facts
) -> dict[str, list[float]]:
    """Compute the `PERSON_FEATURES` for each person nearby."""
    nearby = [(who, facts.people[who]) for who in facts.nearby]
    if not nearby:
        return {}
    words = conversation.rarities(line.text.words)
    stems = conversation.rarities(line.text.stems)
    shared = [[_shared(words, each.line.text.words) for each in person.latest]
              for _, person in nearby]  # fmt: skip
    most = [max(each) for each in shared]
    talk = [_shared(words, person.words) for _, person in nearby]
    related = [_shared(stems, person.stems) for _, person in nearby]
    related_most = _two_highest(related)
    talk_most = _two_highest(talk)
    questions = _order(facts, lambda person: person.question_ago)
    namers = _order(facts, lambda person: person.named_speaker_ago)
    aimed = _order(facts, lambda person: person.aimed_ago)
    answered = _order(facts, lambda person: person.answered_ago)
    own = facts.own[0][2] if facts.own else None
    own_ago = facts.own[0][0] if facts.own else FAR
    before = frozenset[str]().union(*(heard.line.text.words for _, _, heard in facts.own[:3]))
    people = facts.people.values()
    namings = sum(each.named_speaker for each in people)
    named = sum(each.named_by_speaker for each in people)
    from_speaker = [person.from_speaker for _, person in nearby]
    to_speaker = [person.to_speaker for _, person in nearby]
    best = [person.best for _, person in nearby]
    from_most, to_most, best_most, words_most = map(
        _two_highest, (from_speaker, to_speaker, best, most)
    )
    from_all, to_all = sum(from_speaker), sum(to_speaker)
    result: dict[str, list[float]] = {}
    for at, (who, person) in enumerate(nearby):
        assert person.last is not None
        last = person.last.line
        open_line = next(
            (each.line for each in person.latest
             if not each.line.named or line.speaker in each.line.named), None,
        )  # fmt: skip
        elsewhere = _other(words_most, most[at])
        talk_elsewhere = _other(talk_most, talk[at])
        question = person.question
        result[who] = [
            float(who in line.named),
            float(who == line.first_named),
            float(bool(line.named) and who not in line.named),
            _log(person.ago),
            _log(person.seconds_ago),
            float(person.order),
            float(person.speaker_after),
            float(person.since_speaker),
            float(person.lines),
            float(person.lines_of_12),
            person.asked / person.lines,
            _log(person.named_speaker_ago),
            _log(person.named_speaker_s),
            float(person.speaker_after_naming),
            float(person.named_speaker),
            float(person.asked_when_naming),
            _log(person.named_by_speaker_ago),
            _log(person.named_by_speaker_s),
            float(person.after_named),
            float(person.named_by_speaker),
            float(person.named_others),
            _to(last.named, line.speaker),
            _to(own.line.named, who) if own else _NEVER,
            namers.get(who, 20.0),
            float(namings - person.named_speaker),
            float(named - person.named_by_speaker),
            float(last.text.asks),
            _log(last.text.characters),
            float(open_line.text.asks) if open_line else _NEVER,
            shared[at][0],
            most[at],
            sum(shared[at]),
            elsewhere,
            most[at] - elsewhere,
            conversation.shared(last.text.words, before),
            float(person.ago < own_ago),
            talk[at],
            talk_elsewhere,
            talk[at] - talk_elsewhere,
            _log(len(facts.words & person.words)),
            related[at],
            related[at] - _other(related_most, related[at]),
            *(float(cue in last.text.has) for cue in _LAST_CUES),
            float(last.text.commands),
            person.commands / person.lines,
            person.namings / person.lines,
            float(person.turns),
            _log(line.text.characters / _TYPED) - _log(person.seconds_ago),
            _log(person.question_ago),
            float(person.speaker_after_question),
            questions.get(who, 20.0),
            _shared(words, question.line.text.words) if question else _NEVER,
            float(person.named_by_others),
            _log(person.named_by_others_ago),
            person.from_speaker,
            person.to_speaker,
            person.to_others,
            person.speakers_last_to_it,
            person.last_to_speaker,
            person.best,
            _log(person.best_ago),
            float(person.speaker_after_best),
            *_best(words, person),
            from_all - person.from_speaker,
            to_all - person.to_speaker,
            person.from_speaker - _other(from_most, person.from_speaker),
            person.to_speaker - _other(to_most, person.to_speaker),
            person.best - _other(best_most, person.best),
            _log(person.aimed_ago),
            _log(person.aimed_s),
            float(person.speaker_after_aimed),
            aimed.get(who, 20.0),
            _log(person.answered_ago),
            float(person.after_answered),
            answered.get(who, 20.0),
            float(person.aimed_ago - person.answered_ago),
            person.from_others,
            _log(person.from_others_ago),
            person.others_after_question,
        ]
    return result


def elsewhere_numbers(likely: Sequence[float], continues: float) -> list[list[float]]:
    """Compute the `ELSEWHERE_FEATURES` for each person nearby, from how likely the line goes to
    each of them. ``continues`` is how likely the line continues what its speaker said before."""
    order = sorted(range(len(likely)), key=lambda at: -likely[at])
    rank = {at: float(place) for place, at in enumerate(order)}
    together, highest = sum(likely), _two_highest(likely)
    return [
        [each, rank[at], _other(highest, each), together - each, continues]
        for at, each in enumerate(likely)
    ]


def _shared(rarities: Mapping[str, float], words: AbstractSet[str]) -> float:
    """Return the sum of the rarities of the words that are also in ``words``. The result does not
    depend on the order in which the words are added. This order differs between two starts of the
    program."""
    return math.fsum(rarities[each] for each in rarities.keys() & words)


def _best(words: Mapping[str, float], person: PersonFacts) -> tuple[float, float]:
    if person.best_line is None:
        return _NEVER, 0.0
    text = person.best_line.line.text
    return float(text.asks), _shared(words, text.words)


def _order(facts: Facts, ago: Callable[[PersonFacts], int]) -> dict[str, float]:
    """Rank the people to whom an event happened: 0 for the latest event, 1 for the one before, and
    so on. ``ago`` returns how many lines ago it happened."""
    happened = sorted((when, who) for who in facts.nearby if (when := ago(facts.people[who])) < FAR)
    return {who: float(place) for place, (_, who) in enumerate(happened)}


def _two_highest(values: Sequence[float]) -> tuple[float, float]:
    highest = second = 0.0
    for each in values:
        if each > highest:
            highest, second = each, highest
        elif each > second:
            second = each
    return highest, second


def _other(highest: tuple[float, float], value: float) -> float:
    """Return the highest value of the other people, from the two highest values of all people."""
    return highest[1] if value >= highest[0] else highest[0]
