"""Shows which parts of the bot work, and how to repair those that do not."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from nekro_core.operator.actions import NO_PROGRESS, Area, Progress, action, query
from nekro_core.operator.audit import AuditLog, Change
from nekro_core.operator.roles import AccessRole, Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check.

    Attributes:
        area: The part of the bot, for example ``boxes``.
        ok: Whether the part works; None if the finding is neither good nor bad.
        seen: What was found.
        remedy: How to repair it.
    """

    area: str
    ok: bool | None
    seen: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """The findings of the last check.

    Attributes:
        at: When the check ended, in seconds since 1970; 0 if there was none since the start.
        findings: All findings, in the order of the checks.
    """

    at: float = 0.0
    findings: tuple[Finding, ...] = ()


class Health(Area):
    """The state of the bot's parts.

    Args:
        audit: The audit log.
        examine: Runs all checks. It starts a box, generates a voice and asks the model.
        quick: Runs the checks that start nothing, and returns what is wrong.
        wall: Returns the current time, in seconds since 1970.
    """

    name = "health"

    def __init__(
        self,
        audit: AuditLog,
        examine: Callable[[], AsyncIterator[Finding]],
        quick: Callable[[], tuple[Finding, ...]],
        wall: Callable[[], float],
    ) -> None:
        super().__init__(audit)
        self._examine = examine
        self._quick = quick
        self._wall = wall
        self._report = HealthReport()

    @query(role=AccessRole.VIEWER)
    async def report(self, actor: Actor) -> HealthReport:  # noqa: ARG002
        """Get the findings of the last check."""
        return self._report

    @query(role=AccessRole.VIEWER)
    async def problems(self, actor: Actor) -> tuple[Finding, ...]:  # noqa: ARG002
        """Get what is wrong now with disk, settings, adapters and the operator's files. These
        checks start nothing and take less than a millisecond."""
        return self._quick()

    @action(role=AccessRole.OPERATOR)
    async def check(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        progress: Progress = NO_PROGRESS,
    ) -> Change[HealthReport]:
        """Check all parts of the bot: disk, database, boxes, model, voices, media, adapters and
        files. It takes some seconds, and asks the model for one short reply."""
        findings: list[Finding] = []
        async for finding in self._examine():
            findings.append(finding)
            progress.report(finding.area, done=len(findings), code="health", area=finding.area)
        self._report = HealthReport(at=self._wall(), findings=tuple(findings))
        bad = [each.area for each in findings if each.ok is False]
        return Change(result=self._report, subject="health", new=bad or "everything works")
