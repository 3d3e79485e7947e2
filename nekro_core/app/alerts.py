"""Builds the `AlertWatch`, which runs checks and tells operators in chats and by webhook what is
wrong."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nekro_core.app.agent_runtime import AgentRuntime
from nekro_core.app.message_io import MessageIO
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey
from nekro_core.chat.catalogue import Catalogue
from nekro_core.delivery.adapter import Adapter
from nekro_core.llm.role_budget import RoleBudget
from nekro_core.operator.alerts.alert import Alert, AlertKind, Check
from nekro_core.operator.alerts.book import AlertBook
from nekro_core.operator.alerts.checks import (
    AccountCheck,
    BudgetCheck,
    DiskCheck,
    KeyCheck,
    UnknownSendsCheck,
)
from nekro_core.operator.alerts.crashes import CrashCount
from nekro_core.operator.alerts.targets import ChatTarget, WebhookTarget, alert_text
from nekro_core.operator.alerts.watch import AlertTarget, AlertWatch
from nekro_core.operator.health import Finding


async def open_alerts(
    settings: Settings,
    data: Path,
    *,
    message_io: MessageIO,
    runtime: AgentRuntime,
    background: RoleBudget,
    crashes: CrashCount,
    adapters: Callable[[], Mapping[str, Adapter]],
    problems: Callable[[], Mapping[str, str]],
    wall: Callable[[], float],
) -> AlertWatch:
    """Build the watch, and read the alerts that an earlier process stored and that are not over.
    Raises `StoreError`."""
    alerts, catalogue = settings.nekro_alerts, Catalogue.load()

    def words(alert: Alert) -> str:
        return alert_text(alert, catalogue, settings.nekro_agent.language)

    def targets() -> Sequence[AlertTarget]:
        found: list[AlertTarget] = [
            ChatTarget(ChatKey.parse(each), message_io.outbox, words)
            for each in dict.fromkeys(alerts.chats)
        ]
        if alerts.webhook_url:
            found.append(WebhookTarget(alerts, message_io.fetcher, words, wall))
        return found

    checks: dict[AlertKind, Check] = {
        AlertKind.CRASH: crashes.check,
        AlertKind.ACCOUNT: AccountCheck(adapters, problems, alerts, wall).check,
        AlertKind.KEY: KeyCheck(lambda: runtime.models.chains.breakers).check,
        AlertKind.BUDGET: BudgetCheck(runtime.services, background, alerts).check,
        AlertKind.DISK: DiskCheck(data, alerts).check,
        AlertKind.UNKNOWN: UnknownSendsCheck(message_io.store.condition, alerts, wall).check,
    }
    book = AlertBook(message_io.store.waiting)
    await book.load()
    return AlertWatch(book, checks, targets, alerts, wall)


def alert_findings(watch: AlertWatch, settings: Settings) -> tuple[Finding, ...]:
    """Return the alerts that are not over, for the first page of the console."""
    catalogue = Catalogue.load()
    return tuple(
        Finding(
            area=f"alert: {alert.kind}",
            ok=False,
            seen=alert_text(alert, catalogue, settings.nekro_agent.language),
        )
        for alert in watch.present
    )
