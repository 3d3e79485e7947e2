"""In a cluster, each process says what is wrong with it, and one gateway tells the operator."""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from nekro_core.chat.catalogue import Catalogue
from nekro_core.operator.alerts.alert import Alert, AlertKind, Check, Condition, ConditionState
from nekro_core.operator.alerts.book import AlertBook
from nekro_core.operator.alerts.reports import AlertReports
from nekro_core.operator.alerts.settings import AlertSettings
from nekro_core.operator.alerts.targets import alert_text
from nekro_core.operator.alerts.watch import AlertWatch
from nekro_core.store import Store

WRONG, FINE, UNKNOWN = ConditionState.WRONG, ConditionState.FINE, ConditionState.UNKNOWN
KINDS = (AlertKind.ACCOUNT, AlertKind.KEY, AlertKind.DISK)
FACTS = {
    AlertKind.ACCOUNT: {"platform": "onebot", "account": "7", "minutes": "10", "reason": ""},
    AlertKind.KEY: {"model": "gpt"},
    AlertKind.DISK: {"free": "12", "wanted": "1000"},
}
SUBJECTS = {AlertKind.ACCOUNT: "onebot:7", AlertKind.KEY: "gpt", AlertKind.DISK: "data"}
DISK = "Alert: only 12 MB are free on the disk of the data folder; 1000 MB are wanted."
DISK_OVER = "Over: there is enough free space on the disk of the data folder again."
KEY = "Alert: the model gpt does not accept its key."
KEY_OVER = "Over: the model gpt answers again, or is no longer used."
AWAY = "Alert: the account 7 on onebot has not been connected for 10 minutes. "


@dataclass
class Chat:
    """The chat of the operator, which all gateways can reach."""

    name: str = "ops"
    said: list[str] = field(default_factory=list)

    async def tell(self, alert: Alert) -> str:
        self.said.append(alert_text(alert, Catalogue.load(), "en"))
        return ""


@dataclass
class Process:
    """A process of the cluster. ``states`` is what its checks find. One gateway is the *leader*: it
    tells the operator."""

    name: str
    store: Store
    cluster: "Processes"
    states: dict[AlertKind, ConditionState] = field(default_factory=dict)
    served: set[str] = field(default_factory=set)
    reports: AlertReports = field(init=False)
    watch: AlertWatch = field(init=False)

    async def start(self) -> None:
        rows, settings = self.store.waiting, AlertSettings()
        checks = {kind: self._check(kind) for kind in KINDS}
        self.reports = AlertReports(
            rows, self.name, checks, settings, self.cluster.wall, lambda: self.served
        )
        book = AlertBook(rows)
        await book.load()
        merged = {kind: self.reports.check(kind) for kind in KINDS}
        self.watch = AlertWatch(
            book,
            merged,
            lambda: [self.cluster.chat],
            settings,
            self.cluster.wall,
            lambda: self.cluster.leader == self.name,
        )

    def _check(self, kind: AlertKind) -> Check:
        async def check(_: Collection[str]) -> Sequence[Condition]:
            state = self.states.get(kind)
            if state is None:
                return []
            return [Condition(subject=SUBJECTS[kind], state=state, facts=FACTS[kind])]

        return check


@dataclass
class Processes:
    """Two gateways and two workers."""

    store: Store
    chat: Chat = field(default_factory=Chat)
    leader: str = "gateway-1"
    now: float = 1_000_000.0
    ended: set[str] = field(default_factory=set)
    of: dict[str, Process] = field(default_factory=dict)

    def wall(self) -> float:
        return self.now

    async def start(self) -> None:
        for name in ("gateway-1", "gateway-2", "worker-1", "worker-2"):
            self.of[name] = Process(name, self.store, self)
            await self.of[name].start()

    async def look(self, times: int = 1) -> list[str]:
        """Let a minute pass, in which each process that runs looks once. Return everything that the
        operator was told."""
        for _ in range(times):
            self.now += 60.0
            running = [each for each in self.of.values() if each.name not in self.ended]
            for each in running:
                await each.reports.report()
            for each in running:
                if each.name.startswith("gateway"):
                    await each.watch.look()
        return self.chat.said


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Processes]:
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as store:
        found = Processes(store)
        await found.start()
        yield found


async def test_the_alert_of_a_worker_is_told_once_and_names_the_worker(cluster: Processes) -> None:
    cluster.of["worker-1"].states[AlertKind.DISK] = WRONG
    cluster.of["worker-2"].states[AlertKind.DISK] = FINE
    assert await cluster.look(3) == [f"worker-1: {DISK}"]
    cluster.of["worker-1"].states[AlertKind.DISK] = FINE
    assert await cluster.look(3) == [f"worker-1: {DISK}", f"worker-1: {DISK_OVER}"]


async def test_a_key_that_two_workers_find_refused_is_told_once(cluster: Processes) -> None:
    one, two = cluster.of["worker-1"], cluster.of["worker-2"]
    one.states[AlertKind.KEY], two.states[AlertKind.KEY] = WRONG, FINE
    assert await cluster.look(2) == [KEY]
    two.states[AlertKind.KEY] = WRONG
    assert await cluster.look(2) == [KEY]
    one.states[AlertKind.KEY] = FINE
    assert await cluster.look(2) == [KEY]
    two.states[AlertKind.KEY] = FINE
    assert await cluster.look(2) == [KEY, KEY_OVER]


async def test_an_account_that_has_moved_to_another_gateway_is_not_away(cluster: Processes) -> None:
    cluster.of["gateway-1"].states[AlertKind.ACCOUNT] = WRONG
    cluster.of["gateway-2"].states[AlertKind.ACCOUNT] = FINE
    assert await cluster.look(3) == []
    del cluster.of["gateway-2"].states[AlertKind.ACCOUNT]
    assert await cluster.look(3) == [AWAY]


async def test_the_accounts_of_a_killed_gateway_are_away(cluster: Processes) -> None:
    gateway = cluster.of["gateway-2"]
    gateway.states[AlertKind.ACCOUNT] = FINE
    gateway.served.add("onebot")
    await cluster.look()
    assert cluster.of["gateway-1"].reports.reachable == {"onebot"}
    cluster.ended.add("gateway-2")
    assert await cluster.look(6) == []
    assert cluster.of["gateway-1"].reports.reachable == frozenset()
    assert await cluster.look(10) == [f"{AWAY}gateway-2 does not run."]
    cluster.ended.clear()
    assert len(await cluster.look(2)) == 2, "the account is connected again"


async def test_the_next_leader_neither_repeats_nor_forgets_an_alert(cluster: Processes) -> None:
    worker = cluster.of["worker-1"]
    worker.states[AlertKind.DISK] = WRONG
    await cluster.look(2)
    cluster.leader = "gateway-2"
    assert await cluster.look(2) == [f"worker-1: {DISK}"]
    worker.states[AlertKind.DISK] = FINE
    assert await cluster.look(2) == [f"worker-1: {DISK}", f"worker-1: {DISK_OVER}"]
    cluster.leader = "gateway-1"
    assert len(await cluster.look(2)) == 2


async def test_every_gateway_shows_the_alerts_and_only_the_leader_counts_them(
    cluster: Processes,
) -> None:
    cluster.of["worker-1"].states[AlertKind.DISK] = WRONG
    await cluster.look(2)
    watches = [cluster.of[name].watch for name in ("gateway-1", "gateway-2")]
    assert [[each.key for each in watch.present] for watch in watches] == [
        ["disk:data of worker-1"],
        ["disk:data of worker-1"],
    ]
    assert [dict(watch.counts()) for watch in watches] == [{"disk": 1}, {}]


async def test_the_alert_of_a_process_that_is_gone_for_a_day_disappears_without_a_word(
    cluster: Processes,
) -> None:
    cluster.of["worker-1"].states |= {AlertKind.DISK: WRONG, AlertKind.KEY: FINE}
    told = [f"worker-1: {DISK}"]
    assert await cluster.look(2) == told
    cluster.ended.add("worker-1")
    assert await cluster.look(10) == told
    cluster.now += 86_400.0
    assert await cluster.look(3) == told
    assert cluster.of["gateway-1"].watch.present == ()
    names = [row.name for row in await cluster.store.waiting.all("findings")]
    assert sorted(names) == ["gateway-1", "gateway-2", "worker-2"]


async def test_an_alert_of_a_kind_that_this_version_does_not_know_is_left_out(
    cluster: Processes,
) -> None:
    worker = cluster.of["worker-1"]
    worker.states[AlertKind.DISK] = WRONG
    await cluster.look()
    (row,) = [
        each for each in await cluster.store.waiting.all("findings") if each.name == "worker-1"
    ]
    newer = '{"subject": "tea", "state": "wrong", "facts": {}}'
    for name, data in (("worker-8", f'{{"findings": {{"newer": [{newer}]}}}}'), ("worker-9", "7")):
        await cluster.store.waiting.put(replace(row, name=name, data=data))
    assert await cluster.look() == [f"worker-1: {DISK}"]


async def test_a_process_that_is_gone_does_not_hide_what_the_others_find(
    cluster: Processes,
) -> None:
    one, two = cluster.of["worker-1"], cluster.of["worker-2"]
    one.states[AlertKind.KEY] = two.states[AlertKind.KEY] = WRONG
    one.states[AlertKind.ACCOUNT] = two.states[AlertKind.ACCOUNT] = UNKNOWN
    assert await cluster.look() == [KEY]
    cluster.ended.add("worker-1")
    cluster.now += 86_400.0
    two.states[AlertKind.KEY] = FINE
    two.states[AlertKind.ACCOUNT] = WRONG
    assert await cluster.look() == [KEY, KEY_OVER, AWAY]
