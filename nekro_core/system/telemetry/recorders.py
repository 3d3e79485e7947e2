"""Counters and histograms for the code that runs for every message.

All counters and histograms are used on the event loop only, so they need no lock, and recording a
value takes less than a microsecond. `prometheus_client` has counters too, but each of its calls
takes a lock, and importing this library would make the start of the bot too slow. So this module
records the numbers, and the module `exposition` writes them in the form that Prometheus reads.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

MOST_SERIES = 200
"""Maximum number of combinations of labels of one metric. The monitoring system stores a time
series for each combination. Further combinations are counted together, with the label `OTHER`."""
OTHER = "other"
_LABEL_CHARS = 64
"""Maximum number of characters of a label; longer labels are cut. The usual names of models and
platforms are shorter."""

Labels = tuple[str, ...]


class MetricKind(StrEnum):
    """How a metric's number changes."""

    COUNTER = "counter"
    """The number only grows."""
    GAUGE = "gauge"
    """The number is the present value of something. It can grow and shrink."""
    HISTOGRAM = "histogram"
    """The metric has several numbers: how many values fell into each of its buckets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """The description of a metric.

    Attributes:
        name: The name of the metric, as Prometheus reads it. A counter's name ends with ``_total``.
        kind: How the metric's number changes.
        text: What the metric counts or measures, as one sentence.
        labels: The names of the metric's labels.
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
        """Add ``by`` to the number with these labels. There must be one label for each name in
        `Metric.labels`."""
        values = self._values
        if labels not in values:
            labels = _bounded(labels, values)
        values[labels] = values.get(labels, 0.0) + by

    @property
    def values(self) -> Mapping[Labels, float]:
        """The numbers by their labels. A counter without labels has the number 0 from the start; a
        number with labels is missing until it is first counted."""
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
        """Count a value in its bucket and add it to the sum. There must be one label for each name
        in `Metric.labels`."""
        found = self._values.get(labels)
        if found is None:
            labels = _bounded(labels, self._values)
            found = self._values.setdefault(labels, Distribution(len(self.metric.buckets)))
        # A bucket counts the values up to its upper bound, including the bound.
        found.counts[bisect_left(self.metric.buckets, value)] += 1
        found.total += value

    @property
    def values(self) -> Mapping[Labels, Distribution]:
        """The distributions by their labels. A histogram without labels has a distribution of zeros
        from the start."""
        if self._values or self.metric.labels:
            return self._values
        return {(): Distribution(len(self.metric.buckets))}


def _bounded(labels: Labels, series: Collection[Labels]) -> Labels:
    """Return the labels under which a value is counted if no time series has its ``labels``. Each
    label is cut to `_LABEL_CHARS`. ``series`` has the labels of all time series of the metric. If
    there are `MOST_SERIES` of them, and none has the cut labels, each label becomes `OTHER`."""
    cut = tuple(label[:_LABEL_CHARS] for label in labels)
    if cut not in series and len(series) >= MOST_SERIES:
        return (OTHER,) * len(labels)
    return cut
