"""Writes metrics in the text form of Prometheus.

This module imports `prometheus_client`, so it is imported when the metrics are first read.
"""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import (
    Metric as MetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from nekro_core.system.telemetry.metrics import BotMetrics
from nekro_core.system.telemetry.recorders import Distribution, Labels, Metric

CONTENT_TYPE = CONTENT_TYPE_LATEST
Gauges = Mapping[Metric, Mapping[Labels, float]]
"""The present values of gauges by their labels."""


class Exposition:
    """Writes the metrics of one bot. It has a registry of its own, so that several bots in one
    process, and libraries that use the global registry, do not get into each other's way."""

    def __init__(self, metrics: BotMetrics) -> None:
        self._collector = _BotCollector(metrics)
        self._registry = CollectorRegistry()
        self._registry.register(self._collector)
        ProcessCollector(registry=self._registry)

    def text(self, gauges: Gauges) -> bytes:
        """Return all metrics."""
        self._collector.gauges = gauges
        return generate_latest(self._registry)


class _BotCollector(Collector):
    def __init__(self, metrics: BotMetrics) -> None:
        self._metrics = metrics
        self.gauges: Gauges = {}

    def collect(self) -> Iterator[MetricFamily]:
        """Yield each metric with its values."""
        for counter in self._metrics.counters:
            about = counter.metric
            counted = CounterMetricFamily(about.name, about.text, labels=about.labels)
            for labels, value in counter.values.items():
                counted.add_metric(labels, value)
            yield counted
        for histogram in self._metrics.histograms:
            about = histogram.metric
            distributed = HistogramMetricFamily(about.name, about.text, labels=about.labels)
            for labels, found in histogram.values.items():
                distributed.add_metric(
                    labels, buckets=_cumulative(about, found), sum_value=found.total
                )
            yield distributed
        for about, values in self.gauges.items():
            shown = GaugeMetricFamily(about.name, about.text, labels=about.labels)
            for labels, value in values.items():
                shown.add_metric(labels, value)
            yield shown


def _cumulative(about: Metric, found: Distribution) -> list[tuple[str, float]]:
    """Return the upper bound and the count of each bucket in the form of Prometheus: a bucket also
    counts all values of the smaller buckets."""
    total, buckets = 0, list[tuple[str, float]]()
    for bound, count in zip((*map(str, about.buckets), "+Inf"), found.counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
