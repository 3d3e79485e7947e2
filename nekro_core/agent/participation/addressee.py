"""Estimates to whom a line of a group goes if it mentions nobody: to the bot, or to another person.

The estimate uses only who said what, and when. Decision trees make the estimate. The trees were
learnt from conversations of people (`make follows`) and are in `addressee.json`. The estimate for
one line takes one to two milliseconds.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Self

from nekro_core.agent.participation.conversation import AimedLine, Conversation, SpokenLine
from nekro_core.agent.participation.facts import Facts, collect_facts
from nekro_core.agent.participation.feature_names import (
    ELSEWHERE_FEATURES,
    LINE_FEATURES,
    PERSON_FEATURES,
)
from nekro_core.agent.participation.features import (
    elsewhere_numbers,
    line_numbers,
    person_numbers,
)
from nekro_core.agent.participation.trees import BoostedTrees, TreesUnreadable

LEARNT = "addressee.json"
_LEAST_AIM = 0.03
"""A person to whom a line goes with at most this probability is left out of `AimedLine.aims`."""
AIMS = (*LINE_FEATURES, *PERSON_FEATURES)
"""The features of the first trees. These estimate, for each person, how likely the line goes to
this person. Some of their features are what they estimated for the earlier lines."""
CONTINUES = (*LINE_FEATURES, "likeliest", "all together")
"""The features of the second trees. These estimate how likely the line continues what its speaker
said before."""
GOES = (*LINE_FEATURES, *PERSON_FEATURES, *ELSEWHERE_FEATURES)
"""The features of the third trees, which include the results of the first two. The third trees
estimate how likely the line goes to the bot."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The estimate for one line.

    Attributes:
        likely: How likely the line goes to the listener of `AddresseeModel.add_line`, from 0 to 1;
            0 if there was none.
        aims: For each person who spoke lately, how likely the line goes to this person.
        facts: The facts about earlier lines from which the estimate was made.
    """

    likely: float
    aims: Mapping[str, float] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)


@dataclass(frozen=True, slots=True)
class AddresseeModel:
    """The learnt trees. A line whose probability is at least ``threshold`` counts as spoken to the
    bot. 85 % of such lines were really spoken to the bot."""

    aims: BoostedTrees
    continues: BoostedTrees
    goes: BoostedTrees
    threshold: float

    @classmethod
    def read(cls, content: Any) -> Self:
        """Make the model from the decoded JSON of `LEARNT`. Raises `TreesUnreadable`."""
        try:
            names = tuple(content["features"])
            threshold = float(content["threshold"])
            trees = [content[each] for each in ("aims", "continues", "goes")]
        except (KeyError, TypeError, ValueError) as error:
            raise TreesUnreadable(
                f"{LEARNT} lacks {error}; expected features, threshold, aims, continues and goes; "
                "run `make follows` again"
            ) from None
        if names != GOES:
            odd = sorted(set(names) ^ set(GOES))[:5] or ["another order"]
            raise TreesUnreadable(
                f"{LEARNT} was learnt with other features than this version has: "
                f"{', '.join(map(str, odd))}; run `make follows` again"
            )
        aims, continues, goes = (
            BoostedTrees.read(tree, len(columns))
            for tree, columns in zip(trees, (AIMS, CONTINUES, GOES), strict=True)
        )
        return cls(aims, continues, goes, threshold)

    @classmethod
    def load(cls) -> "AddresseeModel":
        """Return the learnt trees that belong to this version. A process reads the file once."""
        return _load()

    def add_line(self, conversation: Conversation, line: SpokenLine, listener: str = "") -> Reading:
        """Estimate how likely a line goes to ``listener``, and add the line to the conversation.
        Without a listener, only the line's aims are estimated.

        If only the author of the line has spoken lately, the probability is 0.
        """
        facts = collect_facts(conversation, line)
        if not facts.nearby:
            conversation.add(AimedLine(line, dict.fromkeys(line.named, 1.0)))
            return Reading(0.0, {}, facts)
        of_line = line_numbers(conversation, line, facts)
        people = person_numbers(conversation, line, facts)
        likely = self.aims.probabilities([[*of_line, *numbers] for numbers in people.values()])
        aims = dict(zip(people, likely, strict=True))
        answer = 0.0
        if listener in people:
            at = facts.nearby.index(listener)
            (continues,) = self.continues.probabilities([[*of_line, max(likely), sum(likely)]])
            elsewhere = elsewhere_numbers(likely, continues)[at]
            (answer,) = self.goes.probabilities([[*of_line, *people[listener], *elsewhere]])
        kept = {who: each for who, each in aims.items() if each > _LEAST_AIM}
        conversation.add(AimedLine(line, kept))
        return Reading(answer, aims, facts)


@cache
def _load() -> AddresseeModel:
    text = (files(__package__) / LEARNT).read_text("utf-8")
    return AddresseeModel.read(json.loads(text))
