"""Makes the examples from which `learn` learns trees: rows of features with the right answers, from
the conversations of the corpus. Every person of the corpus stands in for the bot."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from irc import Day
from numpy.typing import NDArray

from nekro_core.agent.participation.addressee import GOES
from nekro_core.agent.participation.conversation import AimedLine, Conversation
from nekro_core.agent.participation.facts import collect_facts
from nekro_core.agent.participation.feature_names import LINE_FEATURES, TALK_FEATURES
from nekro_core.agent.participation.features import (
    elsewhere_numbers,
    line_numbers,
    person_numbers,
)
from nekro_core.agent.participation.trees import BoostedTrees

FOLDS = 3
"""Number of parts of the files for the cross-validation."""
WARM_UP = 100
"""For this many lines before the first annotated line, the first trees estimate whom the line
answers."""
KEPT = 0.15
"""For most people, it is plain that a line is not addressed to them. Only this share of these
examples is used for learning, and each has a correspondingly higher weight."""
KEPT_PLAUSIBLE = 0.6
TEACHER = (*LINE_FEATURES, *TALK_FEATURES)
"""The features of the teacher trees, which know nothing about to whom earlier lines went."""


@dataclass
class Examples:
    """Rows of features. Each row has the right answer, a weight, and the number of its file."""

    rows: NDArray[np.float32]
    true: NDArray[np.bool_]
    weights: NDArray[np.float32]
    files: NDArray[np.int32]

    @classmethod
    def joined(
        cls, each: Sequence[tuple[list[list[float]], list[bool], list[float]]]
    ) -> "Examples":
        """Join the examples of the files."""
        return cls(
            np.concatenate([np.array(rows, np.float32) for rows, _, _ in each if rows]),
            np.concatenate([np.array(true, np.bool_) for _, true, _ in each]),
            np.concatenate([np.array(weights, np.float32) for _, _, weights in each]),
            np.concatenate([np.full(len(true), at) for at, (_, true, _) in enumerate(each)]),
        )

    def of(self, columns: Sequence[str]) -> "Examples":
        """Return the same examples with the first columns alone."""
        return Examples(self.rows[:, : len(columns)], self.true, self.weights, self.files)

    def unnamed(self) -> "Examples":
        """Return the examples of people whom the line does not name."""
        used = self.rows[:, GOES.index("named")] == 0
        return Examples(self.rows[used], self.true[used], self.weights[used], self.files[used])


def teacher_examples(job: tuple[int, Day]) -> tuple[list[list[float]], list[bool], list[float]]:
    """Return the examples for the teacher trees: for each annotated line and person nearby, whether
    the line answers one of the person's lines."""
    seed, day = job
    random = np.random.default_rng(seed)
    rows, true, weights = [], [], []
    conversation = Conversation()
    for number, line in day.lines.items():
        if number in day.links:
            facts, answered = collect_facts(conversation, line), day.answered(number)
            of_line = line_numbers(conversation, line, facts)
            for who, numbers in person_numbers(conversation, line, facts).items():
                person = facts.people[who]
                plausible = person.named_speaker or person.named_by_speaker or person.order < 3
                share = KEPT_PLAUSIBLE if plausible else KEPT
                if who in answered or random.random() < share:
                    rows.append([*of_line, *numbers[: len(TALK_FEATURES)]])
                    true.append(who in answered)
                    weights.append(1.0 if who in answered else 1 / share)
        conversation.add(AimedLine(line))
    return rows, true, weights


def later_examples(
    aims: Sequence[BoostedTrees], columns: int, job: tuple[int, Day]
) -> tuple[list[list[float]], list[bool], list[float]]:
    """Return the examples for the later trees: for each annotated line and person nearby, whether
    the line answers one of the person's lines. ``aims`` has the trees that estimate to whom a line
    goes, one set for each fold; they read the first ``columns`` features.

    A column is the probability that the line continues a line of its own speaker. The second trees,
    which are not learnt yet, will compute it. Until then the column is 1 if the line continues a
    line of its own speaker, and 0 otherwise.
    """
    fold, day = job
    random = np.random.default_rng(fold)
    rows: list[list[float]] = []
    true: list[bool] = []
    weights: list[float] = []
    conversation, begins = Conversation(), min(day.links) - WARM_UP
    of_aims = aims[fold % len(aims)]
    for number, line in day.lines.items():
        if number < begins:
            conversation.add(AimedLine(line, dict.fromkeys(line.named, 1.0)))
            continue
        facts = collect_facts(conversation, line)
        of_line = line_numbers(conversation, line, facts)
        people = person_numbers(conversation, line, facts)
        likely = of_aims.probabilities(
            [[*of_line, *numbers][:columns] for numbers in people.values()]
        )
        if number in day.links and people:
            answered = day.answered(number)
            elsewhere = elsewhere_numbers(likely, float(line.speaker in answered))
            for at, (who, numbers) in enumerate(people.items()):
                share = KEPT_PLAUSIBLE if likely[at] > 0.03 else KEPT
                if who in answered or random.random() < share:
                    rows.append([*of_line, *numbers, *elsewhere[at]])
                    true.append(who in answered)
                    weights.append(1.0 if who in answered else 1 / share)
        kept = {who: each for who, each in zip(people, likely, strict=True) if each > 0.03}
        conversation.add(AimedLine(line, kept))
    return rows, true, weights


def continuing(third: Examples) -> Examples:
    """Make the examples for the second trees, one for each line, from the examples for the third
    trees."""
    lines, (likely, _, other, together, _) = (
        third.rows[:, : len(LINE_FEATURES)],
        third.rows[:, -5:].T,
    )
    rows = np.column_stack([lines, np.maximum(likely, other), likely + together])
    first = np.ones(len(rows), np.bool_)
    first[1:] = (lines[1:] != lines[:-1]).any(axis=1)
    return Examples(
        rows[first], third.rows[first, -1] > 0, np.ones(first.sum(), np.float32), third.files[first]
    )


def with_continuing(third: Examples, trees: Sequence[BoostedTrees]) -> None:
    """Write into the examples the probability that each line continues a line of its own
    speaker."""
    for fold, each in enumerate(trees):
        at = third.files % FOLDS == fold
        likely, other, together = third.rows[at, -5], third.rows[at, -3], third.rows[at, -2]
        rows = np.column_stack(
            [third.rows[at, : len(LINE_FEATURES)], np.maximum(likely, other), likely + together]
        )
        third.rows[at, -1] = each.probabilities(rows)
