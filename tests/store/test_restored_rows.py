"""A bot that is restored from a backup does not repeat what it did after the backup was made."""

from nekro_core.operator.alerts.crashes import CrashCount
from nekro_core.operator.alerts.settings import AlertSettings
from nekro_core.store import Store
from nekro_core.store.values import WaitingRow


async def test_a_backup_of_a_running_bot_is_no_crash_and_has_no_alerts(store: Store) -> None:
    await CrashCount(store.waiting, AlertSettings(), lambda: 1.0).begin()
    await store.condition.check_writable(1.0)
    for kind, name in (("alert", "disk:data"), ("findings", "bot"), ("question", "1")):
        row = WaitingRow(kind=kind, name=name, plugin="", chat_key="web-private_a")
        await store.waiting.put(row)
    settled = await store.restored.settle("restored", 2.0)
    assert settled.waiting == 1, "only the question is told to the operator"
    for kind in ("alert", "findings", "process", "probe", "question"):
        assert await store.waiting.all(kind) == []
