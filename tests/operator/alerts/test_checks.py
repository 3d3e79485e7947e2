"""Each check finds what is wrong, some only after a time, and finds when it is over."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import ChatKey, DeliveryState, Text
from nekro_core.delivery.platforms.contract import AccountState
from nekro_core.delivery.platforms.monitor import AccountMonitor
from nekro_core.llm.breaker import CircuitBreaker
from nekro_core.llm.model import PassReason
from nekro_core.llm.role_budget import RoleBudget
from nekro_core.llm.role_settings import RoleSettings
from nekro_core.operator.alerts.alert import Check, ConditionState
from nekro_core.operator.alerts.checks import (
    AccountCheck,
    BudgetCheck,
    DiskCheck,
    KeyCheck,
    unknown_sends_check,
)
from nekro_core.operator.alerts.crashes import WITHIN_S, CrashCount
from nekro_core.operator.alerts.settings import AlertSettings
from nekro_core.store import DeliveryRow, ModelUse, Store
from tests.app.broken_adapter import BrokenAdapter


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Accounts:
    """The accounts of an adapter."""

    monitors: list[AccountMonitor]

    def listed(self) -> tuple[Any, ...]:
        return tuple(each.status() for each in self.monitors)


class ManagedAdapter(BrokenAdapter):
    """An adapter whose accounts an operator manages."""

    def __init__(self, accounts: Accounts) -> None:
        super().__init__("telegram", "")
        self.managed_accounts = accounts


async def states(check: Check, open_subjects: Collection[str] = ()) -> dict[str, str]:
    return {each.subject: each.state.value for each in await check(open_subjects)}


async def test_an_offline_account_counts_as_wrong_only_after_ten_minutes() -> None:
    clock, accounts = Clock(), Accounts([AccountMonitor("4711"), AccountMonitor("0815")])
    adapter: Any = ManagedAdapter(accounts)
    check = AccountCheck(lambda: {"telegram": adapter}, dict, AlertSettings(), clock).check
    first, second = accounts.monitors
    first.online("@bot")
    second.paused()
    assert await states(check) == {"telegram:4711": "fine", "telegram:0815": "fine"}
    first.offline("the server closed the connection")
    assert (await states(check))["telegram:4711"] == "unknown"
    clock.now += 9 * 60
    assert (await states(check))["telegram:4711"] == "unknown"
    clock.now += 60
    (found, _) = await check(())
    assert found.state is ConditionState.WRONG
    assert found.facts == {
        "platform": "telegram",
        "account": "4711",
        "minutes": "10",
        "reason": "the server closed the connection",
    }
    first.online("@bot")
    assert (await states(check))["telegram:4711"] == "fine"
    first.offline("again")
    assert (await states(check))["telegram:4711"] == "unknown"
    assert first.state is AccountState.OFFLINE


async def test_while_an_adapter_does_not_start_the_state_of_its_account_is_unknown() -> None:
    problems = {"telegram": "it did not start within 20 s"}
    check = AccountCheck(dict, lambda: problems, AlertSettings(), Clock()).check
    assert await states(check, {"telegram:4711"}) == {"telegram:4711": "unknown"}
    problems.clear()
    assert await states(check, {"telegram:4711"}) == {}


async def test_a_refused_key_counts_as_wrong_until_the_model_has_answered() -> None:
    clock = Clock()
    breaker = CircuitBreaker(RoleSettings(), clock)
    check = KeyCheck(lambda: {"default": breaker}).check
    assert await states(check) == {"default": "unknown"}
    passage = breaker.enter()
    assert passage is not None
    breaker.fails(passage, PassReason.KEY, "401")
    assert await states(check) == {"default": "wrong"}
    clock.now += 1e6  # The cool-down is over, but nobody knows whether the key works.
    assert await states(check) == {"default": "wrong"}
    passage = breaker.enter()
    assert passage is not None
    breaker.works(passage)
    assert await states(check) == {"default": "fine"}


async def test_a_failure_for_another_reason_says_nothing_about_the_key() -> None:
    breaker = CircuitBreaker(RoleSettings(), Clock())
    passage = breaker.enter()
    assert passage is not None
    breaker.fails(passage, PassReason.UNREACHABLE, "no route")
    assert await states(KeyCheck(lambda: {"default": breaker}).check) == {"default": "unknown"}


async def test_the_alert_of_a_full_disk_is_over_only_with_more_than_the_wanted_space(
    tmp_path: Path,
) -> None:
    (found,) = await DiskCheck(tmp_path, AlertSettings(disk_free_mb=1)).check(())
    free = float(found.facts["free"])
    assert found.state is ConditionState.FINE
    almost = AlertSettings(disk_free_mb=int(free * 0.95))
    assert await states(DiskCheck(tmp_path, almost).check) == {"data": "fine"}
    assert await states(DiskCheck(tmp_path, almost).check, {"data"}) == {"data": "wrong"}
    more = AlertSettings(disk_free_mb=int(free * 2))
    assert await states(DiskCheck(tmp_path, more).check) == {"data": "wrong"}


async def test_messages_with_an_unknown_outcome_count_for_an_hour(tmp_path: Path) -> None:
    clock = Clock()
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3", clock=clock) as store:
        check = unknown_sends_check(store.condition, AlertSettings(), clock).check
        assert await states(check) == {"outbox": "fine"}
        await add_unknown(store, clock.now)
        (found,) = await check(())
        assert (found.state, found.facts) == (ConditionState.WRONG, {"number": "1"})
        clock.now += 3601
        assert await states(check) == {"outbox": "fine"}


async def add_unknown(store: Store, created: float) -> None:
    """Store a message whose outcome is unknown."""
    row = DeliveryRow(
        delivery_id="d1",
        chat_key=ChatKey.parse("telegram-private_1"),
        run_id="",
        position=0,
        segments=(Text("hello"),),
        state=DeliveryState.UNKNOWN,
        message_id="",
        reason="no answer",
        record_seq=0,
        created=created,
        changed=created,
    )
    await store.deliveries.add([row], [])


@dataclass
class Sources:
    """The sources of the bot's quota."""

    store: Store
    settings: AgentSettings
    wall: Clock
    policies: Any = None


async def test_a_budget_counts_as_wrong_when_four_fifths_of_it_are_used(tmp_path: Path) -> None:
    clock = Clock()
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3", clock=clock) as store:
        agent = AgentSettings.model_validate({"turn": {"tokens_a_day": 2000, "turns_a_day": 9}})
        roles = RoleSettings(quick_tokens_a_day=1000)
        sources = Sources(store, agent, clock)
        background = RoleBudget(roles, store.model_uses, clock)
        check = BudgetCheck(sources, background, AlertSettings()).check

        async def use(tokens: int) -> None:
            use = ModelUse(
                plugin="nekro-core",
                model="m",
                prompt_tokens=tokens,
                completion_tokens=0,
                started=clock.now,
                role="quick",
            )
            await store.model_uses.add(use)

        fine = {"bot turns": "fine", "bot tokens": "fine", "background work": "fine"}
        assert await states(check) == fine
        await use(799)
        assert await states(check) == fine
        await use(1)
        assert await states(check) == fine | {"background work": "wrong"}
        await use(900)
        found = {each.subject: each for each in await check(())}
        assert found["background work"].facts["percent"] == "100"
        assert found["bot tokens"].state is ConditionState.WRONG
        assert found["bot tokens"].facts == {"budget": "bot tokens", "percent": "85"}
        clock.now += 86_401
        assert await states(check) == fine


async def test_without_budgets_there_is_no_alert(tmp_path: Path) -> None:
    clock = Clock()
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3", clock=clock) as store:
        background = RoleBudget(RoleSettings(), store.model_uses, clock)
        sources = Sources(store, AgentSettings(), clock)
        check = BudgetCheck(sources, background, AlertSettings()).check
        assert "wrong" not in (await states(check)).values()


async def test_only_processes_that_did_not_end_properly_count_as_crashes(tmp_path: Path) -> None:
    clock = Clock()
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3", clock=clock) as store:

        async def start() -> CrashCount:
            crashes = CrashCount(store.waiting, AlertSettings(crashes=2), clock)
            await crashes.begin()
            return crashes

        crashes = await start()
        await crashes.end()
        crashes = await start()
        assert await states(crashes.check) == {"bot": "fine"}
        crashes = await start()  # The process before this one was killed.
        assert await states(crashes.check) == {"bot": "fine"}
        clock.now += 60
        crashes = await start()
        (found,) = await crashes.check(())
        assert found.state is ConditionState.WRONG
        assert found.facts == {"number": "2", "minutes": "15"}
        clock.now += WITHIN_S
        assert await states(crashes.check) == {"bot": "fine"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"chats": ["nowhere"]}, "nowhere"),
        ({"webhook_url": "ftp://example.org"}, "https://"),
        ({"private_hosts": ["10.0.0.5:99999"]}, "10.0.0.5:99999"),
        ({"private_hosts": ["10.0.0.5"]}, "with its port"),
        ({"budget_percent": 120}, "100"),
    ],
)
def test_wrong_settings_are_refused_with_what_was_expected(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        AlertSettings.model_validate(settings)
