"""One measured figure, and the table of them."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What was measured, beside the least that this machine could do in the same run.

    ``p50`` and ``p99`` are in ``unit``; ``floor`` too, of what ``floor_name`` says. ``target`` is
    what we want of the p50; ``more_is_better`` turns the comparison round (rates).
    """

    name: str
    unit: str
    p50: float
    p99: float | None = None
    floor: float | None = None
    floor_name: str = ""
    target: float | None = None
    more_is_better: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        unit: str,
        samples: Sequence[float],
        floor: float,
        floor_name: str,
        target: float | None = None,
    ) -> Self:
        """The p50 and p99 of samples."""
        p50, p99 = percentiles(samples)
        return cls(
            name=name,
            unit=unit,
            p50=p50,
            p99=p99,
            floor=floor,
            floor_name=floor_name,
            target=target,
        )

    @property
    def reached(self) -> bool | None:
        """Whether the target is met; nothing where there is none."""
        if self.target is None:
            return None
        return self.p50 >= self.target if self.more_is_better else self.p50 <= self.target


def percentiles(samples: Sequence[float]) -> tuple[float, float]:
    """The p50 and p99 of samples (at least two)."""
    cuts = statistics.quantiles(samples, n=100, method="inclusive")
    return cuts[49], cuts[98]


def table(figures: Sequence[Figure]) -> str:
    """The figures as text, one a line."""
    rows = [("figure", "p50", "p99", "to reach", "floor of this run", "")]
    rows += [
        (
            figure.name,
            f"{figure.p50:,.3g} {figure.unit}",
            "" if figure.p99 is None else f"{figure.p99:,.3g}",
            "" if figure.target is None else f"{figure.target:,.3g}",
            "" if figure.floor is None else f"{figure.floor:,.3g}  {figure.floor_name}",
            {True: "reached", False: "SHORT", None: ""}[figure.reached],
        )
        for figure in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
