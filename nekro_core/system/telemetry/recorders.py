"""Counters and histograms for the code that runs for every message.

All of them are used on the event loop only, so they need no lock: to record takes less than a
microsecond. `prometheus_client` has counters too, but each of its calls takes a lock, and importing
it takes longer than a start may. So this module records, and `exposition` writes the numbers in the
form that Prometheus reads.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MOST_SERIES = 200
"""Maximum number of combinations of labels of one metric. Each of them is a time series that the
monitoring stores. Further combinations are counted as `OTHER`."""
OTHER = "other"
_LABEL_CHARS = 64
"""Maximum number of characters of a label. Names of models and platforms are shorter."""

Labels = tuple[str, ...]


class MetricKind(StrEnum):
    """How a metric's number changes."""

    COUNTER = "counter"
    """It only grows."""
    GAUGE = "gauge"
    """It is the present value of something."""
    HISTOGRAM = "histogram"
    """It counts values in buckets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """The description of a metric.

    Attributes:
        name: Its name as it is read. A counter's name ends with ``_total``.
        kind: How its number changes.
        text: What it counts or measures, as one sentence.
        labels: The names of its labels.
        buckets: The upper bounds of a histogram's buckets, in ascending order, without infinity.
    """

    name: str
    kind: MetricKind
    text: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


class Counter:
    """Counts something for each combination of labels."""

    __slots__ = ("_values", "metric")

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._values: dict[Labels, float] = {}

    def add(self, *labels: str, by: float = 1.0) -> None:
        """Count ``by`` more. There must be one label for each name in `Metric.labels`."""
        values = self._values
        if labels not in values:
            labels = _bounded(labels, len(values))
        values[labels] = values.get(labels, 0.0) + by

    @property
    def values(self) -> Mapping[Labels, float]:
        """The numbers by their labels. A counter without labels begins with 0."""
        return self._values or ({} if self.metric.labels else {(): 0.0})


class Distribution:
    """The values of a histogram with the same labels: how many fell into each bucket, and their
    sum. The last bucket has no upper bound."""

    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.total = 0.0


class Histogram:
    """Counts values in buckets for each combination of labels."""

    __slots__ = ("_values", "metric")

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._values: dict[Labels, Distribution] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count a value. There must be one label for each name in `Metric.labels`."""
        found = self._values.get(labels)
        if found is None:
            labels = _bounded(labels, len(self._values))
            found = self._values.setdefault(labels, Distribution(len(self.metric.buckets)))
        # A bucket has the values that are not larger than its upper bound.
        found.counts[bisect_left(self.metric.buckets, value)] += 1
        found.total += value

    @property
    def values(self) -> Mapping[Labels, Distribution]:
        """The distributions by their labels. A histogram without labels begins with zeros."""
        if self._values or self.metric.labels:
            return self._values
        return {(): Distribution(len(self.metric.buckets))}


def _bounded(labels: Labels, series: int) -> Labels:
    """Return labels of a new series, cut to `_LABEL_CHARS`. If a metric has `MOST_SERIES` series
    already, all labels become `OTHER`."""
    if series >= MOST_SERIES:
        return (OTHER,) * len(labels)
    return tuple(label[:_LABEL_CHARS] for label in labels)
