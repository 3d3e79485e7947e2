"""Defines a measured figure, and writes figures as a table."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measurement, and the baseline that was measured on this machine in the same run.

    ``p50`` is the median, ``p95`` the 95th percentile and ``p99`` the 99th. ``floor`` is the
    baseline, and ``floor_name`` says what was measured for it. All these numbers are in ``unit``.
    ``target`` is the wanted p50, or the wanted p95 if there is one. ``more_is_better`` is set for
    figures such as rates.
    """

    name: str
    unit: str
    p50: float
    p95: float | None = None
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
        """Make a figure from samples."""
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
        """True if the target is met; None if there is no target."""
        if self.target is None:
            return None
        found = self.p50 if self.p95 is None else self.p95
        return found >= self.target if self.more_is_better else found <= self.target


def percentiles(samples: Sequence[float]) -> tuple[float, float]:
    """The p50 and p99 of samples (at least two)."""
    cuts = statistics.quantiles(samples, n=100, method="inclusive")
    return cuts[49], cuts[98]


def p50_and_p95(samples: Sequence[float]) -> tuple[float, float]:
    """The p50 and p95 of samples (at least two)."""
    cuts = statistics.quantiles(samples, n=100, method="inclusive")
    return cuts[49], cuts[94]


def table(figures: Sequence[Figure]) -> str:
    """The figures as a text table, one for each line."""
    rows = [("figure", "p50", "p95", "p99", "to reach", "floor of this run", "")]
    rows += [
        (
            figure.name,
            f"{figure.p50:,.3g} {figure.unit}",
            "" if figure.p95 is None else f"{figure.p95:,.3g}",
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
