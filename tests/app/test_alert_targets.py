"""An alert is sent to a chat only while the account of the chat is connected: the outbox would drop
a message that waits for too long."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from nekro_core.app.alerts import account_problem
from nekro_core.chat import ChatKey
from nekro_core.delivery.platforms.contract import AccountState, AccountStatus
from nekro_core.store import Store
from tests.delivery.fakes import FakeAdapter


class Accounts:
    """The accounts of an adapter. The test says how they are."""

    def __init__(self, states: dict[str, AccountState]) -> None:
        self.states = states

    def listed(self) -> Sequence[AccountStatus]:
        return [
            AccountStatus(key=f"key of {name}", state=state, account=name)
            for name, state in self.states.items()
        ]


@pytest.mark.parametrize(
    ("states", "problem"),
    [
        ({"7": AccountState.ONLINE, "8": AccountState.OFFLINE}, ""),
        ({"7": AccountState.OFFLINE}, "the account 7 of fake is not connected"),
        (
            {"7": AccountState.FAILED, "8": AccountState.ONLINE},
            "the account 7 of fake is not connected",
        ),
    ],
)
async def test_only_the_account_of_the_chat_counts(
    tmp_path: Path, states: dict[str, AccountState], problem: str
) -> None:
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as store:
        instance = await store.accounts.bind("fake", "7")
        await store.accounts.bind("fake", "8")
        adapter = FakeAdapter()
        adapter.managed_accounts = Accounts(states)
        key = ChatKey.parse(f"{instance}-group_1")
        assert account_problem(key, store.accounts, {"fake": adapter}) == problem
        assert account_problem(key, store.accounts, {}) == "the platform fake does not run"
        assert account_problem(key, store.accounts, {"fake": FakeAdapter()}) == ""
