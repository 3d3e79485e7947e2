"""Defines the settings of monitoring: ``NEKRO_METRICS__...``."""

from typing import Literal

from nekro_core.system.live_settings import LiveSettings
from nekro_core.system.telemetry.spans import TracedContent


class MetricsSettings(LiveSettings):
    """Who may read the metrics."""

    readers: Literal["loopback", "token", "anyone"] = "loopback"
    """Who may read ``/metrics`` and the reasons of ``/readyz``. ``loopback``: programs of this
    machine that ask for a loopback address, and everybody with an API token with the scope
    ``metrics:read``. ``token``: only with such a token, also on this machine. ``anyone``: everybody
    who reaches the web server. The metrics have no messages and no names of chats and people."""


class TraceSettings(LiveSettings):
    """Whether spans are sent to a collector of OpenTelemetry."""

    enabled: bool = False
    """Whether turns, requests to models, tool calls, runs of code and sent messages are traced.
    This needs the extra `otel`. The usual variables of OpenTelemetry say where the spans go."""
    content: tuple[TracedContent, ...] = ()
    """What of chats is in the spans: `prompts`, `replies`, `tools` (the arguments of calls) and
    `chats` (their keys). By default, nothing is."""
