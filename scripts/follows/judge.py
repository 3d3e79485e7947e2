"""Measures how well the bot recognises whether a line that names nobody is addressed to it. Run it
with `make follows-judge DATA=FOLDER`.

FOLDER has pairs of files of the corpus (see `irc`), for example its folder ``dev``. Each person who
wrote one of the last 60 lines stands in for the bot in turn: for each line, the bot's own code with
`addressee.json` estimates whether the line is addressed to this person. There are two results: for
the lines that do not name the stand-in, and for the lines that name nobody at all.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from irc import Day, read_folder
from sklearn.metrics import average_precision_score, precision_recall_curve

from nekro_core.agent.participation.addressee import AddresseeModel
from nekro_core.agent.participation.conversation import Conversation
from nekro_core.agent.participation.facts import collect_facts
from nekro_core.agent.participation.features import (
    elsewhere_numbers,
    line_numbers,
    person_numbers,
)

_WARM_UP = 300
"""The bot also reads this many lines before the first annotated line."""


def candidates_of(
    model: AddresseeModel, day: Day
) -> tuple[list[tuple[bool, bool, float]], list[float]]:
    """Return a row for each annotated line and each stand-in that the line does not name. The row
    has three values: whether the line names nobody, whether it is addressed to the stand-in, and
    the probability of this as the bot computes it. Also return how many seconds each call of
    `AddresseeModel.add_line` took. For this, each line has one listener, the speaker of the line
    before."""
    conversation, answers, seconds = Conversation(), [], []
    begins = min(day.links) - _WARM_UP
    for number, line in day.lines.items():
        if number < begins or number > max(day.links):
            continue
        if number in day.links:
            answered = day.answered(number)
            for who, likely in _of_all(model, conversation, line).items():
                if who not in line.named:
                    answers.append((not line.named, who in answered, likely))
        listener = conversation.lines[-1].line.speaker if conversation.lines else ""
        began = time.perf_counter()
        model.add_line(conversation, line, listener)
        seconds.append(time.perf_counter() - began)
    return answers, seconds


def _of_all(model: AddresseeModel, conversation: Conversation, line: Any) -> dict[str, float]:
    """Return what `AddresseeModel.add_line` would answer for each person nearby if this person were
    the listener."""
    facts = collect_facts(conversation, line)
    of_line = line_numbers(conversation, line, facts)
    people = person_numbers(conversation, line, facts)
    if not people:
        return {}
    likely = model.aims.probabilities([[*of_line, *numbers] for numbers in people.values()])
    (continues,) = model.continues.probabilities([[*of_line, max(likely), sum(likely)]])
    elsewhere = elsewhere_numbers(likely, continues)
    rows = [
        [*of_line, *numbers, *more]
        for numbers, more in zip(people.values(), elsewhere, strict=True)
    ]
    return dict(zip(people, model.goes.probabilities(rows), strict=True))


def report(
    what: str, true: Sequence[bool], likely: Sequence[float], weights: Sequence[float] | None = None
) -> None:
    """Print the average precision, and the recall at several precisions."""
    precision, recall, _ = precision_recall_curve(true, likely, sample_weight=weights)
    at = {
        each: max(
            (float(r) for p, r in zip(precision, recall, strict=True) if p >= each), default=0.0
        )
        for each in (0.7, 0.8, 0.85, 0.9)
    }
    average = average_precision_score(true, likely, sample_weight=weights)
    recalls = ", ".join(f"{value:.3f} at {each:.2f}" for each, value in at.items())
    print(
        f"{what}: {len(true):,} pairs, {int(np.sum(true)):,} go there; average precision "
        f"{average:.3f}; recall {recalls}",
        flush=True,
    )


def threshold_for(
    wanted: float,
    true: Sequence[bool],
    likely: Sequence[float],
    weights: Sequence[float] | None = None,
) -> float:
    """Return the lowest probability that can be the threshold: of the lines with this or a higher
    probability, at least the share ``wanted`` is really addressed to the stand-in."""
    precision, _, thresholds = precision_recall_curve(true, likely, sample_weight=weights)
    return float(min(t for p, t in zip(precision, thresholds, strict=False) if p >= wanted))


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "data", type=Path, help="a folder with NAME.ascii.txt and NAME.annotation.txt"
    )
    options = parser.parse_args()
    model = AddresseeModel.load()
    answers: list[tuple[bool, bool, float]] = []
    seconds: list[float] = []
    for day in read_folder(options.data):
        of_day, took = candidates_of(model, day)
        report(day.name, [each[1] for each in of_day], [each[2] for each in of_day])
        answers += of_day
        seconds += took
    report("lines that do not name the stand-in", *_columns(answers))
    report("lines that name nobody", *_columns([each for each in answers if each[0]]))
    over = [each for each in answers if each[2] >= model.threshold]
    right = sum(each[1] for each in over)
    print(
        f"at the threshold {model.threshold}: {right} of {len(over)} right, "
        f"{right / max(1, sum(each[1] for each in answers)):.3f} of all found"
    )
    took = np.array(seconds) * 1000
    most = np.quantile(took, 0.99)
    print(f"a line takes {np.median(took):.2f} ms, 99 % of them less than {most:.2f} ms")


def _columns(answers: list[tuple[bool, bool, float]]) -> tuple[list[bool], list[float]]:
    return [each[1] for each in answers], [each[2] for each in answers]


if __name__ == "__main__":
    main()
