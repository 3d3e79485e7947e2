"""Bundles the metrics and the tracer of a bot, for the code whose work they record."""

from dataclasses import dataclass, field

from nekro_core.system.telemetry.metrics import BotMetrics
from nekro_core.system.telemetry.spans import NO_TRACER, Tracer


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The objects that record the work of a bot.

    Attributes:
        metrics: The counters and histograms.
        tracer: Records the spans.
    """

    metrics: BotMetrics = field(default_factory=BotMetrics)
    tracer: Tracer = NO_TRACER
