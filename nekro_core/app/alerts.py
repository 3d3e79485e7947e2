"""Builds the `AlertWatch`, which runs checks and tells operators in chats and by webhook what is
wrong."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from nekro_core.app.agent_runtime import AgentRuntime
from nekro_core.app.message_io import MessageIO
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey
from nekro_core.chat.catalogue import Catalogue
from nekro_core.delivery.adapter import Adapter
from nekro_core.delivery.platforms.contract import AccountState, SupportsAccounts
from nekro_core.llm.role_budget import RoleBudget
from nekro_core.operator.alerts.alert import Alert, AlertKind, Check
from nekro_core.operator.alerts.book import AlertBook
from nekro_core.operator.alerts.checks import (
    AccountCheck,
    BudgetCheck,
    DiskCheck,
    KeyCheck,
    given_up_check,
    unknown_sends_check,
)
from nekro_core.operator.alerts.crashes import CrashCount
from nekro_core.operator.alerts.reports import AlertReports
from nekro_core.operator.alerts.targets import ChatTarget, WebhookTarget, alert_text
from nekro_core.operator.alerts.watch import AlertTarget, AlertWatch
from nekro_core.operator.health import Finding
from nekro_core.store.people import AccountRepository


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
    served: Callable[[], Collection[str]],
    process: str,
    leads: Callable[[], bool],
    wall: Callable[[], float],
) -> tuple[AlertWatch, AlertReports | None]:
    """Build the watch, and read the alerts that an earlier process stored and that are not over.
    ``process`` is the name of this process in a cluster; empty if the bot is one process. In a
    cluster, also return the `AlertReports`, through which each process stores what its checks have
    found. The process for which ``leads`` returns True reads them, and tells all alerts. ``served``
    returns the instances of the accounts through which this process lets workers send. Raises
    `StoreError`."""
    alerts, catalogue = settings.nekro_alerts, Catalogue.load()
    reports: AlertReports | None = None

    def words(alert: Alert) -> str:
        return alert_text(alert, catalogue, settings.nekro_agent.language)

    def problem(chat_key: ChatKey) -> str:
        if reports is None:
            return account_problem(chat_key, message_io.store.accounts, adapters())
        if chat_key.instance in reports.reachable:
            return ""
        return f"no gateway is connected to the account {chat_key.instance}"

    def targets() -> Sequence[AlertTarget]:
        found: list[AlertTarget] = [
            ChatTarget(ChatKey.parse(each), message_io.outbox, words, problem)
            for each in dict.fromkeys(alerts.chats)
        ]
        if alerts.webhook_url:
            found.append(WebhookTarget(alerts, message_io.fetcher, words, wall))
        return found

    checks: dict[AlertKind, Check] = {
        AlertKind.CRASH: crashes.check,
        AlertKind.ACCOUNT: AccountCheck(adapters, problems, alerts, wall).check,
        AlertKind.KEY: KeyCheck(lambda: runtime.models.chains.breakers).check,
        AlertKind.DISK: DiskCheck(data, alerts).check,
    }
    rows = message_io.store.waiting
    if process:
        reports = AlertReports(rows, process, checks, alerts, wall, served)
        checks = {kind: reports.check(kind) for kind in checks}
    shared: dict[AlertKind, Check] = {
        AlertKind.BUDGET: BudgetCheck(runtime.services, background, alerts).check,
        AlertKind.UNKNOWN: unknown_sends_check(message_io.store.condition, alerts, wall).check,
        AlertKind.GIVEN_UP: given_up_check(message_io.store.condition, alerts, wall).check,
    }
    book = AlertBook(rows)
    await book.load()
    watch = AlertWatch(book, checks | shared, targets, alerts, wall, leads)
    return watch, reports


def account_problem(
    chat_key: ChatKey, accounts: AccountRepository, adapters: Mapping[str, Adapter]
) -> str:
    """Return why the account of a chat cannot send now; empty if it can, or if its adapter does not
    say."""
    name = accounts.adapter_of(chat_key.instance)
    adapter = adapters.get(name)
    if adapter is None:
        return f"the platform {name} does not run"
    if not isinstance(adapter, SupportsAccounts):
        return ""
    ids = {each for each, place in accounts.instances(name).items() if place == chat_key.instance}
    away = (
        each
        for each in adapter.managed_accounts.listed()
        if each.account in ids and each.state is not AccountState.ONLINE
    )
    return next((f"the account {each.account} of {name} is not connected" for each in away), "")


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
