"""A running bot applies changes of its settings files, and rebuilds the objects made from a
setting."""

import os
from pathlib import Path

import anyio
import pytest

from nekro_core.agent.session.turn_runner import TurnSlots
from nekro_core.app.operator_settings import RunningSettingsBook
from nekro_core.app.running_settings import RunningSettings
from nekro_core.app.settings import Settings
from nekro_core.app.settings_editor import SettingsEditor
from nekro_core.chat import ChatKey
from nekro_core.delivery.outbound.chat_queue import ChatQueues
from nekro_core.policy.limits import RunSendLimit

GROUP = ChatKey.parse("onebot_v11-group_30003")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in os.environ:
        if name.upper().startswith("NEKRO_") or name in ("HOST", "PORT", "ENVIRONMENT"):
            monkeypatch.delenv(name)
    (tmp_path / "data").mkdir()
    return tmp_path


def running_with(folder: Path, text: str = "") -> RunningSettings:
    (folder / "data" / "settings.toml").write_text(text)
    return RunningSettings(Settings.load(folder))


async def save(running: RunningSettings, folder: Path, text: str) -> None:
    (folder / "data" / "settings.toml").write_text(text)
    assert await running.look()


async def test_code_that_holds_a_section_sees_its_new_values(folder: Path) -> None:
    running = running_with(folder)
    agent, turn = running.settings.nekro_agent, running.settings.nekro_agent.turn
    await save(running, folder, '[agent]\npersona = "cat"\n[agent.turn]\nmax_steps = 3\n')
    assert (agent.persona, turn.max_steps) == ("cat", 3)
    await save(running, folder, "")
    assert (agent.persona, turn.max_steps) == ("", 10), (
        "a setting that was removed has its default again"
    )


@pytest.mark.parametrize("renames", [False, True])
async def test_a_file_that_an_editor_is_saving_is_read_when_it_is_saved(
    folder: Path, renames: bool
) -> None:
    file = folder / "data" / "settings.toml"
    running = running_with(folder, '[agent]\npersona = "cat"\n')
    seen: list[str] = []

    async def note() -> None:
        seen.append(running.settings.nekro_agent.persona)

    running.listen(note)
    file.rename(f"{file}~") if renames else file.write_text("")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(running.look)
        await anyio.sleep(0.1)
        file.write_text('[agent]\npersona = "fox"\n')
    assert seen == ["fox"]


async def test_a_setting_that_needs_a_restart_keeps_its_value(folder: Path) -> None:
    running = running_with(folder)
    await save(running, folder, "port = 9\n[agent]\nwarm_boxes = 3\n[store.keep]\nturns_days = 1\n")
    settings = running.settings
    assert settings.port == 8080
    assert settings.nekro_agent.warm_boxes == 64
    assert settings.nekro_store.keep.turns_days == 1, "this part of the section needs no restart"
    assert running.wanted.port == 9


async def test_a_change_of_dotenv_is_applied_too(folder: Path) -> None:
    running = running_with(folder)
    (folder / ".env").write_text("NEKRO_AGENT__PERSONA=dog\n")
    assert await running.look()
    assert running.settings.nekro_agent.persona == "dog"


async def test_changed_superusers_and_prefixes_apply_at_once(folder: Path) -> None:
    running = running_with(folder)
    commands = running.settings.commands
    await save(running, folder, 'superusers = ["10001"]\ncommand_start = ["!"]\n')
    assert "onebot_v11:10001" in commands.super_users
    assert commands.prefixes == ("!",)


async def test_model_groups_are_added_and_removed_at_once(folder: Path) -> None:
    running = running_with(folder)
    groups = running.settings.nekro_models
    await save(running, folder, '[models.fast]\nbase_url = "http://x/v1"\nmodel = "m"\n')
    assert groups["fast"].model == "m"
    await save(running, folder, "")
    assert groups == {}


async def test_a_platform_that_was_switched_on_in_the_console_needs_no_restart(
    folder: Path,
) -> None:
    settings = Settings.load(folder).model_copy(update={"nekro_platforms": ("telegram",)})
    running = RunningSettings(settings, named_platforms=())
    book = RunningSettingsBook(running, SettingsEditor(folder))
    (folder / "data" / "settings.toml").write_text("port = 9\n")
    assert not await running.look()
    assert running.settings.nekro_platforms == ("telegram",)
    assert [each.name for each in await book.infos() if each.restart_needed] == ["port"]


async def test_after_a_change_a_section_knows_which_of_its_fields_are_set(folder: Path) -> None:
    running = running_with(folder)
    llm = running.settings.nekro_llm
    assert llm.model_fields_set == set()
    await save(running, folder, '[llm]\nbase_url = "http://x/v1"\nmodel = "m"\n')
    assert llm.model_fields_set == {"base_url", "model"}
    await save(running, folder, "")
    assert llm.model_fields_set == set()


async def test_a_wrong_file_changes_nothing_and_is_named_until_it_is_corrected(
    folder: Path,
) -> None:
    running = running_with(folder, '[agent]\npersona = "cat"\n')
    path = folder / "data" / "settings.toml"
    path.write_text('[agent]\npersona = "dog"\nlanguage = "xx"\n')
    assert not await running.look()
    assert running.settings.nekro_agent.persona == "cat"
    assert "settings.toml, line 3: agent.language" in running.problem
    path.write_text('[agent]\npersona = "dog"\n')
    assert await running.look()
    assert running.problem == ""
    assert running.settings.nekro_agent.persona == "dog"


async def test_a_listener_that_fails_does_not_stop_the_other_listeners(folder: Path) -> None:
    running, called = running_with(folder), list[str]()

    async def fail() -> None:
        raise RuntimeError("broken")

    async def follow() -> None:
        called.append(running.settings.nekro_agent.persona)

    running.listen(fail)
    running.listen(follow)
    await save(running, folder, '[agent]\npersona = "cat"\n')
    assert called == ["cat"]


async def test_changed_send_rates_apply_at_once(folder: Path) -> None:
    running = running_with(folder, "[delivery]\nsends_per_run = 1\nsends_per_window = 2\n")
    delivery = running.settings.nekro_delivery
    limit, queues = RunSendLimit(delivery), ChatQueues(delivery)
    assert limit.take("run", 2) != ""
    with queues.use(GROUP) as queue:
        queue.window.take(0.0)
        queue.window.take(0.0)
        assert queue.window.wait_s(1.0) == 59.0
    await save(
        running, folder, "[delivery]\nsends_per_run = 2\nsends_per_window = 3\nwindow_s = 10\n"
    )
    assert limit.take("run", 2) == ""
    with queues.use(GROUP) as queue:
        assert queue.window.wait_s(1.0) == 0.0
        queue.window.take(1.0)
        assert queue.window.wait_s(1.0) == 9.0, "messages sent before the change still count"


async def test_a_raised_number_of_concurrent_turns_applies_at_once(folder: Path) -> None:
    running = running_with(folder, "[agent]\nconcurrent_turns = 1\nlongest_queue_s = 0.01\n")
    slots = TurnSlots(running.settings.nekro_agent)
    got: list[bool] = []

    async def turn() -> None:
        async with slots.acquire(exclusive=False) as free:
            got.append(free)

    async with slots.acquire(exclusive=False), anyio.create_task_group() as tasks:
        tasks.start_soon(turn)
        while not got:
            await anyio.sleep(0.01)
        await save(running, folder, "[agent]\nconcurrent_turns = 2\nlongest_queue_s = 0.01\n")
        tasks.start_soon(turn)
    assert got == [False, True]
