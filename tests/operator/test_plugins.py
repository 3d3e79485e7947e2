"""An operator manages the plugins of a running bot, and everything is in the audit log."""

import io
import json
import shutil
import zipfile
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import SecretStr

from nekro_core.chat import ChatKey
from nekro_core.operator.errors import (
    ChangedMeanwhile,
    InvalidParameters,
    NoSuchItem,
    NotAllowed,
)
from nekro_core.operator.jobs import JobState
from nekro_core.operator.operator import Operator
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.plugins.installation.bot_follower import InstallRefused
from nekro_core.sandbox.settings import SandboxSettings
from nekro_core.store import AuditRow
from nekro_core.testing import Bot
from tests.plugins.world import plugin_source

pytestmark = [pytest.mark.anyio, pytest.mark.long]

VIEWER = Actor(name="vera", role=AccessRole.VIEWER, origin=RequestOrigin.PAGE)
OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.API)
OLGA = Actor(name="olga", role=AccessRole.OWNER, origin=RequestOrigin.API)
MAIBOT = Path(__file__).parents[1] / "compat" / "maibot" / "plugins"
CHAT = ChatKey.parse("test-private_lin")
CONFIG = '''
from pydantic import Field
from nekro_core.api.plugin import ConfigBase, ExtraField

@plugin.mount_config()
class Config(ConfigBase):
    TOKEN: str = Field(default="", json_schema_extra=ExtraField(is_secret=True).model_dump())
    COUNT: int = Field(default=3, ge=1, le=9)

@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "broken", "Fails.")
async def broken(_ctx: AgentCtx, number: int) -> str:
    """Divide.

    Args:
        number: What to divide by.
    """
    return str(1 / number)
'''


@pytest.fixture
async def bot(tmp_path: Path) -> AsyncIterator[Bot]:
    stay = tmp_path / "stay.py"
    stay.write_text(plugin_source("stay", "sit"))
    quiet = {"nekro_sandbox": SandboxSettings(pool_size=0)}
    async with Bot.open(tmp_path / "data", stay, settings=quiet) as bot:
        yield bot


@pytest.fixture
def operator(bot: Bot) -> Operator:
    return bot.app.operations


@pytest.fixture
def cup(tmp_path: Path) -> Path:
    folder = tmp_path / "work" / "cup"
    write(folder)
    return folder


def write(folder: Path, *, version: str = "1", more: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    source = plugin_source("cup", "shake", more=CONFIG + more)
    (folder / "__init__.py").write_text(source.replace('"1", "ann"', f'"{version}", "ann"'))


async def entries(operator: Operator) -> list[AuditRow]:
    return [*await operator.audit.audit_log.rows.newest()]


async def test_a_job_installs_a_plugin_which_is_then_configured_and_tried_and_removed(
    operator: Operator, cup: Path
) -> None:
    plugins = operator.plugins
    shown = (await plugins.look(OLGA, source=SecretStr(str(cup)))).result
    assert (shown.key, shown.loads, shown.tools) == ("ann.cup", True, ("shake", "broken"))
    assert "What a model reads that answers in Python" in shown.report
    job = operator.jobs.start(plugins.install, OLGA, {"source": str(cup), "expected": shown.digest})
    texts = set()
    with anyio.fail_after(60):
        while not job.finished.is_set():
            texts.add(job.text)
            await anyio.sleep(0.02)
    assert job.state is JobState.DONE, job.text
    assert "checking it in a confined process" in texts

    view = await plugins.one(VIEWER, plugin="ann.cup")
    assert (view.state, view.has_form, view.source) == ("loaded", True, str(cup))
    listed = await plugins.every(VIEWER)
    assert {"local/cup", "local/stay"} <= {each.item for each in listed.plugins}

    form = await plugins.form(VIEWER, plugin="ann.cup")
    change = await operator.perform(
        OLGA,
        "plugins.configure",
        {"plugin": "ann.cup", "values": {"TOKEN": "s3cret", "COUNT": 5}, "expected": form.revision},
    )
    assert change.result.changes[0].new == "set"
    assert not change.undoable
    with pytest.raises(ChangedMeanwhile, match="COUNT"):
        await operator.perform(
            OLGA,
            "plugins.configure",
            {"plugin": "ann.cup", "values": {"COUNT": 6}, "expected": form.revision},
        )
    with pytest.raises(InvalidParameters, match=r"values\.COUNT: Input should be less than"):
        await operator.perform(
            OLGA,
            "plugins.configure",
            {"plugin": "ann.cup", "values": {"COUNT": 60}, "expected": change.result.revision},
        )
    change = await operator.perform(
        OLGA,
        "plugins.configure",
        {"plugin": "ann.cup", "values": {"COUNT": 6}, "expected": change.result.revision},
    )
    assert change.undoable
    await operator.audit.undo(OLGA, entry_id=change.entry_id)
    form = await plugins.form(VIEWER, plugin="ann.cup")
    assert form.values == {"TOKEN": {"$secret": "TOKEN"}, "COUNT": 5}

    shake, broken = await plugins.tools(VIEWER, plugin="ann.cup", chat_key=CHAT)
    assert "def shake(text: str" in shake.stub
    assert [(each.name, each.kind.value, each.whole) for each in broken.fields] == [
        ("number", "number", True)
    ]
    assert broken.fields[0].help == "What to divide by."
    trial = (
        await plugins.try_tool(OTTO, name="shake", arguments={"text": "it"}, chat_key=CHAT)
    ).result
    assert (trial.text, trial.failed, trial.fault) == ("ann: it", False, None)
    trial = (
        await plugins.try_tool(OTTO, name="broken", arguments={"number": 0}, chat_key=CHAT)
    ).result
    assert trial.failed
    assert trial.fault
    assert trial.fault.text == "ZeroDivisionError: division by zero"
    file, _, line = trial.fault.where.rpartition(":")
    assert Path(file).read_text().splitlines()[int(line) - 1].strip() == "return str(1 / number)"
    trial = (
        await plugins.try_tool(OTTO, name="broken", arguments={"number": "x"}, chat_key=CHAT)
    ).result
    assert trial.failed
    assert "number" in trial.text
    use = await plugins.use(VIEWER, plugin="ann.cup")
    assert [(each.name, each.calls, each.errors) for each in use.tools] == [
        ("shake", 1, 0),
        ("broken", 2, 2),
    ]
    assert (use.errors, use.model_requests) == (2, 0)
    view = await plugins.one(VIEWER, plugin="ann.cup")
    assert (view.errors, view.last_error == use.last_error) == (2, True)
    with pytest.raises(NoSuchItem, match="there is no function 'shak'; there is shake"):
        await plugins.try_tool(OTTO, name="shak", arguments={}, chat_key=CHAT)
    with pytest.raises(NoSuchItem, match="shake can only be called in a chat"):
        await plugins.try_tool(OTTO, name="shake", arguments={})

    await plugins.remove(OTTO, plugin="ann.cup", data=True)
    with pytest.raises(NoSuchItem, match=r"no plugin 'ann\.cup'"):
        await plugins.one(VIEWER, plugin="ann.cup")
    stored = await entries(operator)
    assert "s3cret" not in repr(stored)
    actions = [(each.action, each.outcome) for each in reversed(stored)]
    assert actions[:3] == [
        ("plugins.look", "done"),
        ("plugins.install", "done"),
        ("plugins.configure", "done"),
    ]
    assert actions[-1] == ("plugins.remove", "done")


@pytest.mark.slow
async def test_an_update_and_the_disabling_of_a_plugin_can_be_undone(
    operator: Operator, cup: Path
) -> None:
    plugins = operator.plugins
    await plugins.install(OLGA, source=SecretStr(str(cup)))
    write(cup, version="2", more="import subprocess\n")
    shown = (await plugins.look_at_update(OTTO, plugin="ann.cup", check=False)).result
    assert (shown.version, shown.installed, shown.changes) == ("2", "1", ("changed __init__.py",))
    assert [each.text for each in shown.abilities if each.new] == [
        "starts programs on this machine (subprocess)"
    ]
    done = await plugins.update(OLGA, plugin="ann.cup", expected=shown.digest)
    assert (done.result.version, done.undoable) == ("2", True)
    assert [each.version for each in done.result.versions] == ["1"]
    await operator.audit.undo(OLGA, entry_id=done.entry_id)
    assert (await plugins.one(VIEWER, plugin="ann.cup")).version == "1"
    write(cup, version="3", more="\nraise RuntimeError('no luck')\n")
    with pytest.raises(InstallRefused, match="no luck"):
        await plugins.update(OLGA, plugin="ann.cup")
    assert (await plugins.one(VIEWER, plugin="ann.cup")).state == "loaded"

    done = await plugins.disable(OTTO, plugin="ann.cup")
    assert done.result.state == "disabled"
    await operator.audit.undo(OLGA, entry_id=done.entry_id)
    assert (await plugins.one(VIEWER, plugin="ann.cup")).state == "loaded"
    assert (await plugins.reload(OTTO, plugin="ann.cup")).result.state == "loaded"
    again = await plugins.enable(OTTO, plugin="ann.cup")
    assert not again.undoable
    newest, *_ = await entries(operator)
    assert json.loads(newest.new)["version"] == "1"


SLOW = '''
import anyio

@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "ponder", "Thinks for a while.")
async def ponder(_ctx: AgentCtx) -> str:
    """Think."""
    (plugin.get_plugin_data_dir() / "pondering").touch()
    await anyio.sleep(2)
    return "{words}"
'''


async def test_a_turn_that_runs_during_an_update_uses_the_old_functions_until_the_turn_ends(
    bot: Bot, operator: Operator, cup: Path
) -> None:
    write(cup, more=SLOW.replace("{words}", "as 1"))
    await operator.plugins.install(OLGA, source=SecretStr(str(cup)))
    mark = bot.app.plugins.services.data_dir / "plugin_data" / "ann.cup" / "pondering"
    answers: list[str] = []
    chat = bot.chat()

    async def talk() -> None:
        code = 'first = ponder()\nsend_channel_message(first + ", then " + shake("it"))'
        answers.extend(await chat.ask("think", code=code))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(talk)
        with anyio.fail_after(60):
            while not mark.exists():
                await anyio.sleep(0.02)
        write(cup, version="2", more=SLOW.replace("{words}", "as 2"))
        done = await operator.plugins.update(OLGA, plugin="ann.cup", force=True)
        assert done.result.version == "2"
    assert answers == ["as 1, then ann: it"]
    assert await chat.ask("again", code="send_channel_message(ponder())") == ["as 2"]


async def test_a_maibot_plugin_is_installed_and_updated_and_removed_like_any_other_plugin(
    operator: Operator, tmp_path: Path
) -> None:
    source = tmp_path / "work" / "fortune"
    shutil.copytree(MAIBOT / "fortune-teller", source)
    manifest = json.loads((source / "_manifest.json").read_text())
    wanted = {"type": "plugin", "id": "nobody.here", "version_spec": ">=1"}
    broken = {**manifest, "dependencies": [wanted]}
    (source / "_manifest.json").write_text(json.dumps(broken))
    plugins = operator.plugins
    shown = (await plugins.look(OLGA, source=SecretStr(str(source)))).result
    assert (shown.key, shown.loads) == (manifest["id"], None)
    assert [str(each) for each in shown.problems] == [
        "it needs the plugin nobody.here (install that first)"
    ]
    with pytest.raises(InstallRefused, match=r"it needs the plugin nobody\.here"):
        await plugins.install(OLGA, source=SecretStr(str(source)))

    (source / "_manifest.json").write_text(json.dumps(manifest))
    view = (await plugins.install(OLGA, source=SecretStr(str(source)))).result
    assert (view.state, view.has_form, view.version) == ("loaded", True, manifest["version"])
    before = await plugins.tools(VIEWER, plugin=view.key)
    assert before
    (source / "_manifest.json").write_text(json.dumps({**manifest, "version": "99.0.0"}))
    view = (await plugins.update(OLGA, plugin=view.key)).result
    assert (view.state, view.version) == ("loaded", "99.0.0")
    assert len(await plugins.tools(VIEWER, plugin=view.key)) == len(before)
    view = (await plugins.roll_back(OTTO, plugin=view.key)).result
    assert view.version == manifest["version"]
    await plugins.remove(OTTO, plugin=view.key, data=True)
    assert await plugins.tools(VIEWER, plugin=view.key) == ()


async def test_a_token_in_an_address_is_not_stored(operator: Operator) -> None:
    address = "https://token-abc@127.0.0.1:9/ann/cup.git"
    with pytest.raises(InvalidParameters, match="source: git failed"):
        await operator.plugins.look(OLGA, source=SecretStr(address), check=False)
    newest, *_ = await entries(operator)
    assert newest.outcome == "failed"
    assert "token-abc" not in repr(newest)


async def test_an_uploaded_zip_is_inspected_and_installed(operator: Operator, cup: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(cup / "__init__.py", "cup/__init__.py")
    data = b64encode(packed.getvalue())
    done = await operator.perform(OLGA, "plugins.upload", {"name": "../my cup.zip", "data": data})
    source = SecretStr(done.result)
    shown = (await operator.plugins.look(OLGA, source=source, check=False)).result
    assert shown.key == "ann.cup"
    await operator.plugins.install(OLGA, source=source, expected=shown.digest)
    assert (await operator.plugins.one(VIEWER, plugin="ann.cup")).state == "loaded"
    with pytest.raises(InvalidParameters, match=r"data: cup\.zip: this is no zip"):
        await operator.perform(
            OLGA, "plugins.upload", {"name": "cup.zip", "data": b64encode(b"PK\x03\x04 cut off")}
        )
    assert data.decode()[:60] not in repr(await entries(operator))


CALLS: dict[str, dict[str, Any]] = {
    "upload": {"name": "x.txt", "data": "eA=="},
    "look": {"source": "x"},
    "look_at_update": {"plugin": "x"},
    "install": {"source": "x"},
    "update": {"plugin": "x"},
    "roll_back": {"plugin": "x"},
    "remove": {"plugin": "x", "data": False},
    "enable": {"plugin": "x"},
    "disable": {"plugin": "x"},
    "reload": {"plugin": "x"},
    "configure": {"plugin": "x", "values": {}, "expected": ""},
    "try_tool": {"name": "x", "arguments": {}},
}


@pytest.mark.parametrize("name", CALLS)
async def test_each_action_refuses_a_viewer_and_wrong_parameters(
    operator: Operator, name: str
) -> None:
    with pytest.raises(NotAllowed):
        await operator.perform(VIEWER, f"plugins.{name}", CALLS[name])
    with pytest.raises((NoSuchItem, InvalidParameters)):
        await operator.perform(OLGA, f"plugins.{name}", CALLS[name])


@pytest.mark.parametrize("name", ["look", "install", "update", "configure"])
async def test_only_an_owner_may_install_and_configure_plugins(
    operator: Operator, name: str
) -> None:
    parameters = CALLS.get(name, {"address": "/etc/index.toml"})
    with pytest.raises(NotAllowed, match="needs the role owner"):
        await operator.perform(OTTO, f"plugins.{name}", parameters)


async def test_the_table_of_calls_in_this_module_has_every_action(operator: Operator) -> None:
    acts = {name for name, each in operator.plugins.declared().items() if each.acts}
    assert acts == set(CALLS)
