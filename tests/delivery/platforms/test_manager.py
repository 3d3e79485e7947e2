"""Accounts are started, changed and stored one by one. A change that cannot be stored is not
made."""

import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from nekro_core.delivery.account_settings import AccountSettingsFiles, StoredAccounts
from nekro_core.delivery.platforms.contract import AccountState, ConnectionHint
from nekro_core.delivery.platforms.errors import (
    AccountError,
    AccountExists,
    AccountLocked,
    ConnectionProblem,
    InvalidAccountSettings,
    UnknownAccount,
)
from nekro_core.delivery.platforms.manager import AccountManager
from nekro_core.delivery.platforms.monitor import AccountMonitor


class Line(BaseModel):
    model_config = ConfigDict(extra="forbid")
    password: SecretStr = Field(default=SecretStr(""), title="Password", description="A secret.")
    speed: int = Field(default=1, ge=1, title="Speed", description="How fast.")


class Phone(BaseModel):
    model_config = ConfigDict(extra="forbid")
    number: str = Field(title="Number", description="The number.")
    line: Line = Field(default=Line(), title="Line", description="The line.")


class Exchange:
    """A platform for phones. It records which phones are connected, and with which settings."""

    def __init__(self) -> None:
        self.connected: dict[str, Phone] = {}
        self.log: list[str] = []

    def key_of(self, settings: Phone) -> str:
        return settings.number

    def complete(self, settings: Phone) -> Phone:
        return settings

    async def run(self, settings: Phone, monitor: AccountMonitor) -> None:
        if settings.number == "13":
            raise RuntimeError("nobody connects this number")
        self.connected[settings.number] = settings
        self.log.append(f"+{settings.number}")
        monitor.online(settings.number)
        try:
            await anyio.sleep_forever()
        finally:
            del self.connected[settings.number]
            self.log.append(f"-{settings.number}")

    async def test(self, settings: Phone) -> str:
        await anyio.sleep_forever()
        return settings.number

    def hint(self, settings: Phone, _address: str) -> ConnectionHint:
        return ConnectionHint(text=f"call {settings.number}")


class FullDisk(AccountSettingsFiles):
    full = False

    def save(self, adapter: str, stored: StoredAccounts) -> None:
        if self.full:
            raise OSError("No space left on device")
        super().save(adapter, stored)


@asynccontextmanager
async def opened(
    store: AccountSettingsFiles, exchange: Exchange, *locked: str, live: bool = True
) -> AsyncIterator[AccountManager[Phone]]:
    manager = AccountManager(
        Phone,
        exchange,
        store,
        adapter="phone",
        locked=[(Phone(number=each), "PHONES") for each in locked],
        live=live,
    )
    async with anyio.create_task_group() as tasks:
        manager.open(tasks)
        await anyio.wait_all_tasks_blocked()
        yield manager
        tasks.cancel_scope.cancel()


def states(manager: AccountManager[Phone]) -> dict[str, str]:
    return {each.key: each.state.value for each in manager.listed()}


async def test_a_change_that_cannot_be_stored_is_not_made(tmp_path: Path) -> None:
    store, exchange = FullDisk(tmp_path), Exchange()
    async with opened(store, exchange, "1") as manager:
        await manager.add({"number": "2"})
        await anyio.wait_all_tasks_blocked()
        before = list(exchange.log)
        store.full = True
        for work in (
            manager.add({"number": "3"}),
            manager.change("2", {"number": "4"}),
            manager.pause("2"),
            manager.remove("2"),
        ):
            with pytest.raises(OSError, match="No space"):
                await work
        assert states(manager) == {"1": "online", "2": "online"}
        assert exchange.log == before
        store.full = False
        await manager.pause("2")
        store.full = True
        with pytest.raises(OSError, match="No space"):
            await manager.resume("2")
        assert states(manager)["2"] == "paused"


async def test_only_the_changed_account_is_connected_again(tmp_path: Path) -> None:
    exchange = Exchange()
    async with opened(AccountSettingsFiles(tmp_path), exchange, "1") as manager:
        await manager.add({"number": "2", "line": {"password": "hunter2", "speed": 3}})
        await anyio.wait_all_tasks_blocked()
        await manager.change("2", {"line": {"speed": 5, "password": None}})
        await anyio.wait_all_tasks_blocked()
        line = exchange.connected["2"].line
        assert (line.password.get_secret_value(), line.speed) == ("hunter2", 5)
        moved = await manager.change("2", {"number": "7"})
        assert moved.key == "7"
        await anyio.wait_all_tasks_blocked()
        assert exchange.log == ["+1", "+2", "-2", "+2", "-2", "+7"]
        assert manager.settings_of("7").secrets == ("line.password",)
        assert manager.settings_of("7").values == {"number": "7", "line": {"speed": 5}}
        with pytest.raises(AccountExists):
            await manager.change("7", {"number": "1"})
        with pytest.raises(AccountLocked, match="PHONES"):
            await manager.change("1", {"number": "8"})
        with pytest.raises(UnknownAccount, match="there are: 1, 7"):
            await manager.pause("2")
        with pytest.raises(InvalidAccountSettings) as refused:
            await manager.change("7", {"line": {"speed": 0, "password": "hunter3"}})
        assert [*refused.value.problems] == ["line.speed"]
        assert "hunter3" not in str(refused.value)


async def test_an_account_can_be_paused_before_its_task_has_begun(tmp_path: Path) -> None:
    exchange = Exchange()
    async with opened(AccountSettingsFiles(tmp_path), exchange) as manager:
        await manager.add({"number": "2"})
        for _ in range(3):
            await manager.pause("2")
            await manager.resume("2")
        await anyio.wait_all_tasks_blocked()
        assert states(manager) == {"2": "online"}
        assert len(exchange.connected) == 1
        assert exchange.log.count("+2") == exchange.log.count("-2") + 1


async def test_an_account_that_breaks_does_not_end_the_others(tmp_path: Path) -> None:
    async with opened(AccountSettingsFiles(tmp_path), Exchange(), "13", "1") as manager:
        assert states(manager) == {"13": "failed", "1": "online"}
        assert "nobody connects this number" in manager.listed()[0].last_error


async def test_stored_settings_that_no_longer_fit_are_kept_and_reported(tmp_path: Path) -> None:
    file = tmp_path / "platforms" / "phone.json"
    file.parent.mkdir()
    stored = {"2": {"number": "2", "colour": "red"}, "1": {"number": "1"}}
    file.write_text(json.dumps({"form": 1, "accounts": stored, "paused": []}))
    exchange = Exchange()
    async with opened(AccountSettingsFiles(tmp_path), exchange, "1") as manager:
        assert states(manager) == {"1": "online", "2": "failed"}
        assert "colour: Extra inputs" in manager.listed()[1].last_error
        await manager.add({"number": "3"})
        assert json.loads(file.read_text())["accounts"]["2"] == stored["2"]
        await manager.change("2", {"number": "2"})
        assert (await manager.wait_until_seen("2", limit_s=10)).state is AccountState.ONLINE


async def test_a_stored_account_that_a_setting_defines_too_stays_stored(tmp_path: Path) -> None:
    store = AccountSettingsFiles(tmp_path)
    async with opened(store, Exchange()) as manager:
        await manager.add({"number": "1"})
    async with opened(store, Exchange(), "1") as manager:
        with pytest.raises(AccountLocked, match="PHONES"):
            await manager.remove("1")
        await manager.add({"number": "2"})
    async with opened(store, Exchange()) as manager:
        assert states(manager) == {"1": "online", "2": "online"}


@pytest.mark.parametrize(
    "text", ["", "[]", '{"form": 2, "accounts": {}, "paused": []}', '{"form": 1}', "\x00"]
)
async def test_a_file_that_cannot_be_read_stops_changes_but_not_the_bot(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "platforms" / "phone.json"
    file.parent.mkdir()
    file.write_text(text)
    async with opened(AccountSettingsFiles(tmp_path), Exchange(), "1") as manager:
        assert states(manager) == {"1": "online"}
        with pytest.raises(AccountError, match="mend this file first"):
            await manager.add({"number": "3"})
        assert states(manager) == {"1": "online"}
    assert file.read_text() == text


async def test_adding_an_account_says_if_the_platform_needs_a_restart_for_it(
    tmp_path: Path,
) -> None:
    exchange = Exchange()
    async with opened(AccountSettingsFiles(tmp_path), exchange, "1", live=False) as manager:
        added = await manager.add({"number": "2"})
        assert added.restart_needed
        with pytest.raises(AccountLocked, match="alone"):
            await manager.pause("1")
        await anyio.wait_all_tasks_blocked()
        assert [*exchange.connected] == ["1"]


async def test_a_connection_test_has_a_time_limit(tmp_path: Path) -> None:
    store = AccountSettingsFiles(tmp_path)
    manager = AccountManager(Phone, Exchange(), store, adapter="phone", test_s=0.05)
    outcome = await manager.test({"number": "2"})
    assert (outcome.ok, outcome.problem) == (False, ConnectionProblem.TOO_SLOW)


async def test_a_change_by_hand_is_reported_before_it_is_overwritten(tmp_path: Path) -> None:
    store = AccountSettingsFiles(tmp_path)
    async with opened(store, Exchange()) as manager:
        await manager.add({"number": "1"})
        path = tmp_path / "platforms" / "phone.json"
        by_hand = path.read_text().replace('"paused": []', '"paused": ["1"]')
        path.write_text(by_hand)
        with pytest.raises(OSError, match="changed by hand or by another process") as told:
            await manager.add({"number": "2"})
        assert "repeat the change to overwrite it" in str(told.value)
        assert path.read_text() == by_hand
        await manager.add({"number": "2"})
        assert '"2"' in path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not (tmp_path / "revisions" / "platforms").exists(), (
        "no earlier versions of a file with secrets may be stored"
    )
