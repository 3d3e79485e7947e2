"""Bundles what records the bot's work, for the code that does the work."""

from dataclasses import dataclass, field

from nekro_core.system.telemetry.metrics import BotMetrics
from nekro_core.system.telemetry.spans import NO_TRACER, Tracer


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """What a bot records about its work.

    Attributes:
        metrics: The numbers.
        tracer: Records the spans.
    """

    metrics: BotMetrics = field(default_factory=BotMetrics)
    tracer: Tracer = NO_TRACER
