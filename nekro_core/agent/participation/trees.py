"""Evaluates boosted decision trees with numpy. A script learns the trees (`make follows`); this
module only reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from nekro_core.system.arrays import NDArray, np
from nekro_core.system.errors import NekroError

_MOST_DEPTH = 64
"""Maximum number of splits on the way to a leaf. The learnt trees have about ten."""


class TreesUnreadable(NekroError, ValueError):
    """The file of the learnt trees has a form that this version does not expect."""


@dataclass(frozen=True, slots=True)
class BoostedTrees:
    """A sum of decision trees that gives a probability.

    All nodes of all trees are in shared arrays. A leaf is its own left and right child, so the same
    number of steps leads from the root to a leaf in every tree.
    """

    roots: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]
    depth: int

    @classmethod
    def read(cls, trees: Any, features: int) -> Self:
        """Make the trees from the decoded JSON of a file.

        Args:
            trees: A list of trees. A tree is a number (a leaf) or a list of four items: the index
                of a feature, a threshold, the tree for values up to the threshold, and the tree for
                greater values.
            features: How many features there are.

        Raises:
            TreesUnreadable: A tree has another form.
        """
        nodes: list[tuple[int, float, int, int, float]] = []
        deepest = 0

        def add(tree: Any, depth: int) -> int:
            nonlocal deepest
            deepest = max(deepest, depth)
            here = len(nodes)
            if isinstance(tree, int | float) and not isinstance(tree, bool):
                nodes.append((0, 0.0, here, here, float(tree)))
                return here
            match tree:
                case [int(feature), int() | float() as threshold, low, high] if (
                    0 <= feature < features and depth < _MOST_DEPTH
                ):
                    nodes.append((0, 0.0, 0, 0, 0.0))
                    left, right = add(low, depth + 1), add(high, depth + 1)
                    nodes[here] = (feature, float(threshold), left, right, 0.0)
                    return here
            raise TreesUnreadable(
                f"a learnt tree has a node {str(tree)[:80]!r}; expected a number, or a list of a "
                f"feature below {features}, a threshold and two trees; run `make follows` again"
            )

        if not isinstance(trees, list) or not trees:
            raise TreesUnreadable("expected a list of trees; run `make follows` again")
        roots = [add(tree, 0) for tree in trees]
        feature, threshold, left, right, value = zip(*nodes, strict=True)
        return cls(
            roots=np.array(roots, dtype=np.int32),
            feature=np.array(feature, dtype=np.int32),
            threshold=np.array(threshold),
            left=np.array(left, dtype=np.int32),
            right=np.array(right, dtype=np.int32),
            value=np.array(value),
            depth=deepest,
        )

    def probabilities(self, rows: Sequence[Sequence[float]] | NDArray[Any]) -> list[float]:
        """Compute the probability for each row of feature values."""
        if not len(rows):
            return []
        table = np.array(rows, dtype=np.float64)
        at = np.broadcast_to(self.roots[:, None], (len(self.roots), len(table))).copy()
        columns = np.arange(len(table))[None, :]
        for _ in range(self.depth):
            low = table[columns, self.feature[at]] <= self.threshold[at]
            at = np.where(low, self.left[at], self.right[at])
        sums = self.value[at].sum(axis=0)
        return [float(each) for each in 1.0 / (1.0 + np.exp(-sums))]
