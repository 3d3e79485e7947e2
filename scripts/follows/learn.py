"""Learns, from conversations of people, to whom a line is addressed if it names nobody. Run it with
`make follows DATA=FOLDER`.

FOLDER has the folders ``train`` and ``dev`` of the corpus (see `irc`). Every person of the corpus
stands in for the bot. Three sets of boosted trees are learnt one after another, because each set
uses the estimates of the earlier sets. The first set also uses its own estimates about the earlier
lines of the conversation. While the first set is learnt, teacher trees make these estimates. The
teacher trees need no estimates about earlier lines, and they are not stored. No estimate about a
line comes from trees that were learnt from the line's own file. The result is `addressee.json`;
`judge.py` measures how good it is.

This needs lightgbm and scikit-learn, which the bot itself does not need.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from irc import Day, read_folder
from judge import report, threshold_for
from rows import (
    FOLDS,
    TEACHER,
    Examples,
    continuing,
    later_examples,
    teacher_examples,
    with_continuing,
)

from nekro_core.agent.participation import addressee
from nekro_core.agent.participation.addressee import AIMS, CONTINUES, GOES
from nekro_core.agent.participation.trees import BoostedTrees

PRECISION = 0.85
"""The threshold is the lowest probability for which this is true: of the lines with a higher
probability, at least this share is really addressed to the bot."""
SHARED: dict[str, Any] = {
    "objective": "binary", "verbose": -1, "num_threads": 1, "max_bin": 63, "seed": 14,
    "bagging_freq": 1, "bagging_fraction": 0.7, "lambda_l2": 5.0, "deterministic": True,
}  # fmt: skip
AIMS_TREES = {
    "learning_rate": 0.1, "num_leaves": 16, "max_depth": 6,
    "min_data_in_leaf": 80, "feature_fraction": 0.5,
}  # fmt: skip
CONTINUES_TREES = {
    "learning_rate": 0.08, "num_leaves": 8, "max_depth": 5,
    "min_data_in_leaf": 60, "feature_fraction": 0.5,
}  # fmt: skip
GOES_TREES: tuple[dict[str, Any], ...] = tuple(
    {"learning_rate": 0.05, "max_depth": 7, "min_data_in_leaf": 60, **each}
    for each in (
        {"num_leaves": 16, "feature_fraction": 0.35},
        {"num_leaves": 16, "feature_fraction": 0.2, "seed": 3},
        {"num_leaves": 12, "feature_fraction": 0.25, "seed": 7},
    )
)
"""The third trees are learnt three times, each time with other random choices. The mean of the
logits is better than each of them."""
AT_ONCE = 5000
"""Number of rows that are evaluated at once: 900 trees need 30 kB of memory for each row."""
AIMS_ROUNDS, CONTINUES_ROUNDS, GOES_ROUNDS = 120, 60, 300

Trees = list[Any]
"""Trees in the form in which they are written to the file."""


def trees_of(
    examples: Examples,
    columns: Sequence[str],
    rounds: int,
    how: Sequence[dict[str, Any]],
    without: int | None = None,
) -> Trees:
    """Learn trees from all files, or from the files that are not in the fold ``without``. If
    there are several ways, return the trees of all; their sum is the mean of the ways."""
    used = examples.files % FOLDS != without if without is not None else examples.files >= 0
    trees: Trees = []
    for each in how:
        data = lightgbm.Dataset(
            examples.rows[used], examples.true[used], weight=examples.weights[used]
        )
        dumped = lightgbm.train({**SHARED, **each}, data, rounds).dump_model()
        assert dumped["max_feature_idx"] + 1 == len(columns)
        trees += [_tree(one["tree_structure"], 1 / len(how)) for one in dumped["tree_info"]]
    return trees


def _tree(node: dict[str, Any], share: float) -> Any:
    """Write a tree in the form of the file, its values multiplied by ``share``."""
    if "leaf_value" in node:
        return round(node["leaf_value"] * share, 4)
    # LightGBM reads a missing value as 0, so a threshold beside 0 has many digits.
    threshold = float(f"{node['threshold']:.4g}")
    below, above = _tree(node["left_child"], share), _tree(node["right_child"], share)
    return [node["split_feature"], threshold, below, above]


def main() -> None:
    """Learn, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the corpus: a folder with train and dev")
    parser.add_argument("--every", type=int, default=1, help="take only each such file, to try out")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="a folder in which the examples are kept")
    parser.add_argument(
        "--into", type=Path, default=Path(addressee.__file__).with_name(addressee.LEARNT)
    )
    options = parser.parse_args()
    days = [*enumerate(read_folder(options.data / "train", options.every))]

    def all_of(make: Callable[[tuple[int, Day]], Any]) -> Examples:
        with Pool(options.processes) as pool:
            return Examples.joined(pool.map(make, days, chunksize=2))

    def learnt(
        examples: Examples, columns: Sequence[str], rounds: int, *how: dict[str, Any]
    ) -> tuple[list[BoostedTrees], Trees]:
        """Learn trees without each fold, and trees from all files."""
        with Pool(options.processes) as pool:
            learn = partial(trees_of, examples, columns, rounds, how)
            *folds, of_all = pool.map(learn, [*range(FOLDS), None], 1)
        return [BoostedTrees.read(each, len(columns)) for each in folds], of_all

    say("examples of the teacher")
    teacher, _ = learnt(all_of(teacher_examples), TEACHER, AIMS_ROUNDS, AIMS_TREES)
    say("examples of the first trees")
    first = all_of(partial(later_examples, teacher, len(TEACHER)))
    keep(options.keep, "first", first)
    aims, of_all = learnt(first.of(AIMS), AIMS, AIMS_ROUNDS, AIMS_TREES)
    content: dict[str, Any] = {"aims": of_all}
    say("examples of the others")
    third = all_of(partial(later_examples, aims, len(AIMS))).unnamed()
    second = continuing(third)
    continues, content["continues"] = learnt(second, CONTINUES, CONTINUES_ROUNDS, CONTINUES_TREES)
    with_continuing(third, continues)
    keep(options.keep, "third", third)
    if options.keep:
        (options.keep / "stages.json").write_text(json.dumps(content))
    goes, content["goes"] = learnt(third, GOES, GOES_ROUNDS, *GOES_TREES)
    answers = np.zeros(len(third.true))
    for fold in range(FOLDS):
        of_fold = third.files % FOLDS == fold
        answers[of_fold] = [
            likely
            for at in range(0, of_fold.sum(), AT_ONCE)
            for likely in goes[fold].probabilities(third.rows[of_fold][at : at + AT_ONCE])
        ]
        report(
            f"cross-validation, fold {fold}",
            third.true[of_fold],
            answers[of_fold],
            third.weights[of_fold],
        )
    report("cross-validation", third.true, answers, third.weights)
    content["threshold"] = round(threshold_for(PRECISION, third.true, answers, third.weights), 3)
    content["features"] = list(GOES)
    write(options.into, content)
    say(f"{options.into}: {options.into.stat().st_size:,} bytes, threshold {content['threshold']}")


def keep(folder: Path | None, name: str, examples: Examples) -> None:
    """Keep examples in a folder, for trials."""
    if folder:
        np.savez(folder / name, examples.rows, examples.true, examples.weights, examples.files)


def write(path: Path, content: dict[str, Any]) -> None:
    """Write the file. It has one line for each tree."""
    head = {
        "about": "Learnt by `make follows` from the Ubuntu IRC conversations of Kummerfeld et al. "
        "(2019), github.com/jkkummerfeld/irc-disentanglement, CC BY 4.0. A tree is a number, or "
        "[feature, threshold, tree for values up to it, tree for others]; the sum of all trees "
        "is a logit.",
        "threshold": content["threshold"],
        "features": content["features"],
    }
    parts = [f"{json.dumps(name)}: {json.dumps(head[name])}" for name in head]
    for name in ("aims", "continues", "goes"):
        trees = ",\n".join(json.dumps(tree, separators=(",", ":")) for tree in content[name])
        parts.append(f'"{name}": [\n{trees}\n]')
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")


def say(what: str) -> None:
    """Print what is being done now, for the person who waits."""
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
