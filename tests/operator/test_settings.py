"""Operators change the settings of a running bot."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nekro_core.app.operator_settings import RestartUnavailable, RunningSettingsBook
from nekro_core.app.running_settings import RunningSettings
from nekro_core.app.settings import Settings
from nekro_core.app.settings_editor import SettingsEditor
from nekro_core.app.settings_sources import SettingsError
from nekro_core.operator.audit import AuditLog, Done
from nekro_core.operator.audit_area import Audit
from nekro_core.operator.errors import ChangedMeanwhile, NoSuchItem, NotAllowed
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.operator.settings import SettingsArea
from nekro_core.store import Store
from nekro_core.system.setting_info import SettingLocked, SettingSource

VIEWER = Actor(name="vera", role=AccessRole.VIEWER, origin=RequestOrigin.PAGE)
OWNER = Actor(name="olga", role=AccessRole.OWNER, origin=RequestOrigin.PAGE)


@dataclass
class Desk:
    """The settings of a bot, and the actions of an operator on them."""

    folder: Path
    store: Store
    running: RunningSettings
    area: SettingsArea
    audit: Audit
    restarts: list[str]

    async def set(self, **values: Any) -> Done[Any]:
        """Call the action as the HTTP API does. In a name, ``__`` stands for a dot."""
        named = {name.replace("__", "."): value for name, value in values.items()}
        return await self.area.set.invoke(OWNER, {"values": named})

    async def value(self, name: str) -> Any:
        return (await self.area.one(OWNER, setting=name)).value

    async def log(self) -> str:
        return str(await self.store.audit.newest())


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    for name in os.environ:
        if name.upper().startswith(("NEKRO_", "ONEBOT_")) or name in ("HOST", "PORT"):
            monkeypatch.delenv(name)
    (tmp_path / ".env").write_text("NEKRO_TRIGGER__DEBOUNCE_S=0.5\nONEBOT_ACCESS_TOKEN=secret-1\n")
    running = RunningSettings(Settings.load(tmp_path))
    restarts: list[str] = []
    async with Store.open(f"sqlite://{tmp_path}/test.sqlite3") as store:
        log = AuditLog(store.audit)
        book = RunningSettingsBook(
            running, SettingsEditor(tmp_path), lambda: restarts.append("again")
        )
        area = SettingsArea(log, book)

        async def perform(actor: Actor, name: str, parameters: Any) -> Done[Any]:
            return await getattr(area, name.removeprefix("settings.")).invoke(actor, parameters)

        yield Desk(tmp_path, store, running, area, Audit(log, perform), restarts)


async def test_a_changed_setting_takes_effect_at_once_and_is_in_the_file(desk: Desk) -> None:
    agent = desk.running.settings.nekro_agent
    done = await desk.set(agent__names=["Mei"], agent__turn__max_steps=3)
    assert agent.names == ("Mei",)
    assert agent.turn.max_steps == 3
    assert [each.name for each in done.result] == ["agent.names", "agent.turn.max_steps"]
    assert 'names = ["Mei"]' in (desk.folder / "data" / "settings.toml").read_text()
    assert Settings.load(desk.folder).nekro_agent.names == ("Mei",)


async def test_an_invalid_value_is_refused_with_the_same_error_as_in_the_file(desk: Desk) -> None:
    with pytest.raises(SettingsError, match=r"settings.toml, line \d+: agent.turn.max_steps: "):
        await desk.set(agent__turn__max_steps=1000, agent__names=["Mei"])
    assert not (desk.folder / "data" / "settings.toml").exists()
    assert desk.running.settings.nekro_agent.names == ("Nekro",), (
        "if one value is invalid, no value may be changed"
    )
    with pytest.raises(SettingsError, match=r"did you mean agent.names\?"):
        await desk.set(agent__namez=["Mei"])


async def test_a_change_is_undone(desk: Desk) -> None:
    first = await desk.set(agent__persona="cat")
    second = await desk.set(agent__persona="dog")
    await desk.audit.undo(OWNER, entry_id=second.entry_id)
    assert desk.running.settings.nekro_agent.persona == "cat"
    await desk.audit.undo(OWNER, entry_id=first.entry_id)
    assert desk.running.settings.nekro_agent.persona == ""
    assert (await desk.area.one(VIEWER, setting="agent.persona")).source is SettingSource.DEFAULT


async def test_a_secret_is_written_and_never_shown(desk: Desk) -> None:
    done = await desk.set(
        llm__base_url="http://127.0.0.1:9/v1", llm__model="m", llm__api_key="sk-x1"
    )
    assert not done.undoable
    assert desk.running.settings.nekro_llm.api_key.get_secret_value() == "sk-x1"
    info = await desk.area.one(VIEWER, setting="llm.api_key")
    assert (info.secret, info.is_set, info.value) == (True, True, None)
    assert "sk-x1" not in str(await desk.area.listed(VIEWER))
    assert "sk-x1" not in await desk.log()
    assert "sk-x1" not in (desk.folder / "data" / "settings.toml").read_text()
    path = desk.folder / "data" / "secrets.toml"
    assert "sk-x1" in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    await desk.set(llm__api_key="sk-x2")
    kept = [each.read_text() for each in (desk.folder / "data").rglob("*") if each.is_file()]
    assert not [text for text in kept if "sk-x1" in text], "no file may keep the old key"


async def test_the_second_of_two_people_who_change_a_setting_is_refused(desk: Desk) -> None:
    await desk.set(agent__persona="cat")
    with pytest.raises(ChangedMeanwhile, match="it is 'cat' now"):
        await desk.area.set.invoke(
            OWNER,
            {"values": {"agent.persona": "dog"}, "seen": {"agent.persona": ""}},
        )
    assert await desk.value("agent.persona") == "cat"


async def test_a_setting_in_dotenv_is_locked_until_it_is_moved(desk: Desk) -> None:
    info = await desk.area.one(VIEWER, setting="trigger.debounce_s")
    assert (info.source, info.locked_by, info.locked_in) == (
        SettingSource.DOTENV,
        "NEKRO_TRIGGER__DEBOUNCE_S",
        ".env",
    )
    with pytest.raises(SettingLocked, match=r"NEKRO_TRIGGER__DEBOUNCE_S in .*\.env"):
        await desk.set(trigger__debounce_s=2)
    state = await desk.area.state(VIEWER)
    assert state.in_dotenv == ("trigger.debounce_s", "adapters.onebot_access_token")
    await desk.area.move_from_env(OWNER)
    data = desk.folder / "data"
    assert (desk.folder / ".env").read_text() == (
        f"# NEKRO_TRIGGER__DEBOUNCE_S is trigger.debounce_s in {data}/settings.toml now\n"
        f"# ONEBOT_ACCESS_TOKEN is adapters.onebot_access_token in {data}/secrets.toml now\n"
    )
    assert await desk.value("trigger.debounce_s") == 0.5
    (copy,) = (data / "env_copies").iterdir()
    assert "ONEBOT_ACCESS_TOKEN=secret-1" in copy.read_text()
    assert copy.stat().st_mode & 0o077 == 0
    await desk.set(trigger__debounce_s=2)
    assert desk.running.settings.nekro_trigger.debounce_s == 2
    assert "secret-1" not in await desk.log()


async def test_a_setting_that_needs_a_restart_says_so(desk: Desk) -> None:
    done = await desk.set(port=8123, agent__language="ja")
    assert [each.restart_needed for each in done.result] == [True, False]
    assert (await desk.area.state(VIEWER)).waiting == ("port",)
    assert desk.running.settings.port == 8080
    await desk.area.restart(OWNER)
    assert desk.restarts == ["again"]


async def test_a_broken_file_is_named_and_the_last_good_settings_are_shown(desk: Desk) -> None:
    await desk.set(agent__persona="cat")
    path = desk.folder / "data" / "settings.toml"
    path.write_text(path.read_text() + "[agent.turn]\nmax_steps = -1\n")
    await desk.running.look()
    state = await desk.area.state(VIEWER)
    assert f"line {len(path.read_text().splitlines())}: agent.turn.max_steps" in state.problem
    assert await desk.value("agent.persona") == "cat"


async def test_a_viewer_changes_nothing(desk: Desk) -> None:
    for call in (
        desk.area.set.invoke(VIEWER, {"values": {"agent.persona": "x"}}),
        desk.area.unset(VIEWER, names=["agent.persona"]),
        desk.area.move_from_env(VIEWER),
        desk.area.restart(VIEWER),
    ):
        with pytest.raises(NotAllowed):
            await call
    assert not (desk.folder / "data" / "settings.toml").exists()
    assert desk.restarts == []


async def test_settings_are_found_by_table_by_text_and_by_name(desk: Desk) -> None:
    names = [each.name for each in await desk.area.listed(VIEWER, table="agent.turn")]
    assert "agent.turn.max_steps" in names
    assert all(name.startswith("agent.turn.") for name in names)
    found = await desk.area.listed(VIEWER, text="MAX_STEPS")
    assert [each.name for each in found] == ["agent.turn.max_steps"]
    assert found[0].type == "whole number from 1 to 100"
    assert found[0].default == 10
    assert found[0].description.startswith("Maximum number of model replies.")
    with pytest.raises(NoSuchItem):
        await desk.area.one(VIEWER, setting="agent.nothing")


async def test_every_setting_has_a_description(desk: Desk) -> None:
    infos = await desk.area.listed(VIEWER)
    assert len(infos) > 150
    foreign = ("adapters.", "nonebot.")
    assert [i.name for i in infos if not i.description and not i.name.startswith(foreign)] == []


async def test_an_operator_cannot_restart_a_bot_inside_another_program(desk: Desk) -> None:
    book = RunningSettingsBook(desk.running, SettingsEditor(desk.folder))
    with pytest.raises(RestartUnavailable):
        book.restart()
