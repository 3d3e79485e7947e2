"""Defines the values in which the bot says whether it can answer messages, and the interface
through which the web server asks for them."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessCheck:
    """Whether one part of the bot can do its work now.

    Attributes:
        name: The part: ``start``, ``database``, ``adapters`` or ``model``.
        ok: Whether the part can do its work.
        reason: Why the part cannot do its work; empty if it can.
    """

    name: str
    ok: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether the bot can answer messages now.

    Attributes:
        checks: The result for each part.
    """

    checks: tuple[ReadinessCheck, ...]

    @property
    def ready(self) -> bool:
        """Whether all parts can do their work."""
        return all(check.ok for check in self.checks)


class BotMonitor(Protocol):
    """What the web server says about the bot's health (`nekro_core.app.monitoring.Monitoring`)."""

    @property
    def readers(self) -> str:
        """Who may read the metrics; see `MetricsSettings.readers`."""

    async def readiness(self) -> Readiness:
        """Check whether the bot can answer. Takes at most a few seconds."""

    async def metrics_text(self) -> tuple[bytes, str]:
        """Return all metrics in the text form of Prometheus, and the content type of this text."""
