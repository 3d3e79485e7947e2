"""A gateway serves an account to the workers while its adapter uses the account, and at most one
gateway serves it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.app.cluster.gateway_accounts import GatewayAccounts
from nekro_core.cluster.account_messages import account_name
from nekro_core.cluster.account_server import AccountServer
from nekro_core.cluster.calls import CallCarrier
from nekro_core.cluster.errors import CallError, NobodyServes
from nekro_core.cluster.leases import Leases, LocalLeases
from nekro_core.cluster.local_calls import LocalCalls
from nekro_core.cluster.local_objects import LocalObjects
from nekro_core.delivery.adapter import Adapter
from nekro_core.delivery.platforms.contract import AccountState, AccountStatus
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.store import Store
from tests.delivery.fakes import FakeAdapter


@dataclass
class Listing:
    """The list of an adapter's accounts, which has one account. With ``broken``, it cannot be
    read."""

    state: AccountState = AccountState.ONLINE
    broken: bool = False

    def listed(self) -> tuple[AccountStatus, ...]:
        if self.broken:
            raise RuntimeError("the adapter of a plugin is broken")
        return (AccountStatus(key="bot", state=self.state, account="bot"),)


class ManagedAdapter(FakeAdapter):
    """An adapter whose account can go away."""

    def __init__(self) -> None:
        super().__init__()
        self.managed_accounts: Any = Listing()


@dataclass
class Gateway:
    """A gateway of a cluster, as far as accounts are concerned."""

    accounts: GatewayAccounts
    calls: CallCarrier
    adapter: ManagedAdapter
    problems: dict[str, str] = field(default_factory=dict)

    async def served(self, instance: str = "fake") -> bool:
        """Return whether a worker reaches the account through this gateway."""
        try:
            await self.calls.call(account_name(instance), b"{}", within_s=5)
        except NobodyServes:
            return False
        except CallError as error:
            raise AssertionError(error) from error
        return True

    async def until_served(self, *, served: bool = True) -> None:
        with anyio.fail_after(30):
            while await self.served() is not served:
                await anyio.sleep(0.01)


@asynccontextmanager
async def gateway(store: Store, leases: Leases, folder: Path, name: str) -> AsyncIterator[Gateway]:
    calls, adapter, problems = LocalCalls(), ManagedAdapter(), dict[str, str]()
    adapters: dict[str, Adapter] = {"fake": adapter}
    server = AccountServer(
        name=name,
        leases=leases,
        calls=calls,
        objects=LocalObjects(folder / "objects"),
        store=store,
        adapters=adapters,
        partitions=1,
        scratch=folder / "scratch",
        settings=DeliverySettings(),
    )
    accounts = GatewayAccounts(server, lambda: adapters, problems, look_s=0.02, away_s=1.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(accounts.live)
        yield Gateway(accounts, calls, adapter, problems)
        tasks.cancel_scope.cancel()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as opened:
        await opened.accounts.bind("fake", "bot")
        yield opened


async def test_an_account_is_served_from_its_first_use_on(store: Store, tmp_path: Path) -> None:
    async with gateway(store, LocalLeases(), tmp_path, "one") as one:
        assert not await one.served()
        one.accounts.used("fake", "bot", "fake")
        await one.until_served()
        # The operator gives the account another name.
        one.accounts.used("fake", "bot", "mei")
        await one.until_served(served=False)
        with anyio.fail_after(30):
            while not await one.served("mei"):
                await anyio.sleep(0.01)


async def test_the_second_gateway_says_who_has_the_account_and_tries_again(
    store: Store, tmp_path: Path
) -> None:
    leases = LocalLeases()
    async with (
        gateway(store, leases, tmp_path, "one") as one,
        gateway(store, leases, tmp_path, "two") as two,
    ):
        one.accounts.used("fake", "bot", "fake")
        await one.until_served()
        two.accounts.used("fake", "bot", "fake")
        with anyio.fail_after(30):
            while not two.problems:
                await anyio.sleep(0.01)
        assert two.problems == {
            "fake bot": "the account cannot be used: account.fake is used by one"
        }
        assert one.problems == {}
        # A short loss of the connection changes nothing, a longer one does.
        one.adapter.managed_accounts.state = AccountState.OFFLINE
        await anyio.sleep(0.1)
        assert await one.served()
        await one.until_served(served=False)
        await two.until_served()
        assert two.problems == {}
        one.adapter.managed_accounts.state = AccountState.ONLINE
        with anyio.fail_after(30):
            while not one.problems:
                await anyio.sleep(0.01)
        assert "is used by two" in one.problems["fake bot"]


async def test_an_account_that_never_connected_is_not_served(store: Store, tmp_path: Path) -> None:
    async with gateway(store, LocalLeases(), tmp_path, "one") as one:
        one.adapter.managed_accounts.state = AccountState.FAILED
        one.accounts.used("fake", "bot", "fake")
        await anyio.sleep(0.1)
        assert not await one.served()


class FaultyLeases(LocalLeases):
    """Leases that fail for one account in a way that nobody expects, until ``broken`` is False."""

    broken = True

    @asynccontextmanager
    async def hold(self, name: str, holder: str) -> AsyncIterator[None]:
        if self.broken and name == account_name("mei"):
            raise RuntimeError("a fault of a library")
        async with super().hold(name, holder):
            yield


async def test_an_unexpected_fault_of_one_account_ends_neither_the_gateway_nor_other_accounts(
    store: Store, tmp_path: Path
) -> None:
    leases = FaultyLeases()
    async with gateway(store, leases, tmp_path, "one") as one:
        one.accounts.used("fake", "second bot", "mei")
        await anyio.sleep(0.1)
        one.accounts.used("fake", "bot", "fake")
        await one.until_served()
        assert not await one.served("mei")
        leases.broken = False
        with anyio.fail_after(30):
            while not await one.served("mei"):
                await anyio.sleep(0.01)


async def test_an_adapter_that_cannot_list_its_accounts_does_not_end_the_gateway(
    store: Store, tmp_path: Path
) -> None:
    async with gateway(store, LocalLeases(), tmp_path, "one") as one:
        one.adapter.managed_accounts.broken = True
        one.accounts.used("fake", "bot", "fake")
        await one.until_served()
        await anyio.sleep(0.1)
        assert await one.served()
