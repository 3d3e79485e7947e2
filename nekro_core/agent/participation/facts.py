"""Collects, for a new line, what its speaker and each other person said to each other before."""

import math
from dataclasses import dataclass, field

from nekro_core.agent.participation.conversation import AimedLine, Conversation, SpokenLine

NEARBY = 60
"""Number of lines. A person who wrote none of this many newest lines is not considered as the one
to whom the next line goes."""
FAR = 150
"""An event that is in none of the kept lines (`conversation.WINDOW`) counts as this many lines
away."""
FAR_S = 7200.0
"""Such an event counts as this many seconds away."""
_FADES_S = 240.0
"""After this many seconds (four minutes), the weight of an earlier line has fallen to 37 %."""
_AIMED = 0.3
"""Probability from which a line counts as a line to a person."""
_LATEST = 3
"""Number of a person's newest lines whose words are compared with the new line."""
_TURNS_S = 300.0
"""`PersonFacts.turns` counts only lines that are at most this many seconds old: five minutes."""


@dataclass(slots=True)
class PersonFacts:
    """What is known about one person who is not the speaker of the new line.

    A field ``..._ago`` counts the lines from an event to the new line. ``speaker_after...`` counts
    the speaker's lines after the event, and ``after_...`` counts the lines of this person.
    ``to_...`` and ``from_...`` add up the probabilities with which this person's lines went to
    somebody, or somebody's lines to this person; a line counts less the older it is.
    """

    last: AimedLine | None = None
    ago: int = FAR
    seconds_ago: float = FAR_S
    order: int = 99
    speaker_after: int = 0
    since_speaker: int = 0
    lines: int = 0
    lines_of_12: int = 0
    asked: int = 0
    latest: list[AimedLine] = field(default_factory=list)
    named_speaker: int = 0
    named_speaker_ago: int = FAR
    named_speaker_s: float = FAR_S
    speaker_after_naming: int = 50
    asked_when_naming: int = -1
    named_by_speaker: int = 0
    named_by_speaker_ago: int = FAR
    named_by_speaker_s: float = FAR_S
    after_named: int = 50
    named_others: int = 0
    to_speaker: float = 0.0
    from_speaker: float = 0.0
    to_others: float = 0.0
    last_to_speaker: float = 0.0
    speakers_last_to_it: float = 0.0
    best: float = 0.0
    best_line: AimedLine | None = None
    best_ago: int = FAR
    speaker_after_best: int = 50
    aimed_ago: int = FAR
    aimed_s: float = FAR_S
    speaker_after_aimed: int = 50
    answered_ago: int = FAR
    after_answered: int = 50
    words: set[str] = field(default_factory=set)
    """The words of this person's lines, and of the lines that name this person."""
    stems: set[str] = field(default_factory=set)
    """The stems of the words of this person's lines."""
    turns: int = 0
    """How often, in the last `_TURNS_S`, this person wrote one or more lines and then the speaker
    did."""
    speaker_after_seen: int = 0
    """How many lines the speaker wrote after this person's line that was read last. The lines are
    read from the newest to the oldest."""
    namings: int = 0
    """In how many lines this person named somebody."""
    commands: int = 0
    question: AimedLine | None = None
    """This person's newest question to the speaker or to nobody in particular."""
    question_ago: int = FAR
    speaker_after_question: int = 50
    others_after_question: float = 0.0
    """How much others said to this person after the question: the sum, over the lines of others, of
    the probability that the line goes to this person; a line counts less the older it is."""
    named_by_others: int = 0
    named_by_others_ago: int = FAR
    from_others: float = 0.0
    from_others_ago: int = FAR


@dataclass(slots=True)
class Facts:
    """What is known about the speaker of the new line and about other people. ``nearby`` are the
    people to whom the line may go; the person who spoke last is the first."""

    people: dict[str, PersonFacts] = field(default_factory=dict)
    nearby: list[str] = field(default_factory=list)
    own: list[tuple[int, float, AimedLine]] = field(default_factory=list)
    """The speaker's earlier lines, newest first: lines ago, seconds ago, the line."""
    first_ago: int = FAR
    of_ten: int = 0
    active: int = 0
    in_a_minute: int = 0
    own_namings: int = 0
    own_commands: int = 0
    words: set[str] = field(default_factory=set)
    """The words of the speaker's own lines, and of the lines that name the speaker."""

    def person(self, who: str) -> PersonFacts:
        """Return the facts about a person; empty ones if nothing is known yet."""
        facts = self.people.get(who)
        if facts is None:
            facts = self.people[who] = PersonFacts()
        return facts


def collect_facts(conversation: Conversation, line: SpokenLine) -> Facts:
    """Collect the facts for a new line, which is not in the conversation yet."""
    facts, speaker = Facts(), line.speaker
    of_ten: set[str] = set()
    active: set[str] = set()
    for ago, heard in enumerate(reversed(conversation.lines), 1):
        said = heard.line
        seconds = max(0.0, line.at - said.at)
        facts.in_a_minute += seconds <= 60
        if said.speaker == speaker:
            _add_own(facts, heard, ago, seconds)
            continue
        if ago <= 10:
            of_ten.add(said.speaker)
        if seconds <= 300:
            active.add(said.speaker)
        _add_other(facts, heard, ago, seconds, speaker)
    facts.of_ten, facts.active = len(of_ten), len(active)
    facts.nearby = [who for who in facts.nearby if facts.people[who].ago <= NEARBY]
    return facts


def _add_own(facts: Facts, heard: AimedLine, ago: int, seconds: float) -> None:
    newest = not facts.own
    facts.own.append((ago, seconds, heard))
    facts.own_namings += bool(heard.line.named)
    facts.own_commands += heard.line.text.commands
    facts.words |= heard.line.text.words
    facts.first_ago = ago
    for who in heard.line.named:
        person = facts.person(who)
        person.named_by_speaker += 1
        person.words |= heard.line.text.words
        if person.named_by_speaker == 1:
            person.named_by_speaker_ago, person.named_by_speaker_s = ago, seconds
            person.after_named = person.lines
    weight = math.exp(-seconds / _FADES_S)
    for who, likely in heard.aims.items():
        person = facts.person(who)
        person.from_speaker += weight * likely
        if newest:
            person.speakers_last_to_it = likely
        if likely >= _AIMED and person.answered_ago == FAR:
            person.answered_ago, person.after_answered = ago, person.lines


def _add_other(facts: Facts, heard: AimedLine, ago: int, seconds: float, speaker: str) -> None:
    said, own = heard.line, len(facts.own)
    person = facts.person(said.speaker)
    if person.last is None:
        person.last, person.ago, person.seconds_ago = heard, ago, seconds
        person.order, person.speaker_after = len(facts.nearby), own
        person.last_to_speaker = heard.aims.get(speaker, 0.0)
        facts.nearby.append(said.speaker)
    person.lines += 1
    person.lines_of_12 += ago <= 12
    person.asked += said.text.asks
    person.commands += said.text.commands
    person.since_speaker += not own
    person.words |= said.text.words
    person.stems |= said.text.stems
    if len(person.latest) < _LATEST:
        person.latest.append(heard)
    if own != person.speaker_after_seen:
        # The speaker wrote after this line, and before this person's next one.
        person.turns += seconds <= _TURNS_S
        person.speaker_after_seen = own
    if said.text.asks and person.question is None and (not said.named or speaker in said.named):
        person.question, person.question_ago = heard, ago
        person.speaker_after_question = own
        person.others_after_question = person.from_others
    if said.named:
        _add_names(facts, person, said, ago, seconds, speaker)
    _add_aims(facts, person, heard, ago, seconds, speaker)


def _add_names(
    facts: Facts, person: PersonFacts, said: SpokenLine, ago: int, seconds: float, speaker: str
) -> None:
    """Note whom another person's line names. The line was written ``ago`` lines and ``seconds``
    before the speaker's line."""
    person.namings += 1
    if speaker in said.named:
        person.named_speaker += 1
        if person.named_speaker == 1:
            person.named_speaker_ago, person.named_speaker_s = ago, seconds
            person.speaker_after_naming = len(facts.own)
            person.asked_when_naming = int(said.text.asks)
        facts.words |= said.text.words
    else:
        person.named_others += 1
    for who in said.named - {speaker}:
        other = facts.person(who)
        other.words |= said.text.words
        other.named_by_others += 1
        other.named_by_others_ago = min(ago, other.named_by_others_ago)


def _add_aims(
    facts: Facts, person: PersonFacts, heard: AimedLine, ago: int, seconds: float, speaker: str
) -> None:
    """Note to whom another person's line probably goes. ``ago`` and ``seconds`` are as in
    `_add_names`."""
    weight, own = math.exp(-seconds / _FADES_S), len(facts.own)
    for who, likely in heard.aims.items():
        if who != speaker:
            person.to_others += weight * likely
            other = facts.person(who)
            other.from_others += weight * likely
            if likely >= _AIMED and other.from_others_ago == FAR:
                other.from_others_ago = ago
            continue
        person.to_speaker += weight * likely
        if weight * likely > person.best:
            person.best, person.best_line = weight * likely, heard
            person.best_ago, person.speaker_after_best = ago, own
        if likely >= _AIMED and person.aimed_ago == FAR:
            person.aimed_ago, person.aimed_s, person.speaker_after_aimed = ago, seconds, own
