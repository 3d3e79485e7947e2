"""An operator lists, tests, adds, changes and removes models. Keys are never shown or sent away."""

import hashlib
import os
import tomllib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue, SecretStr

from nekro_core.app.app import App
from nekro_core.app.operator_settings import SettingsUnreadable
from nekro_core.app.settings import Settings
from nekro_core.app.settings_sources import SettingsError
from nekro_core.chat import ChatKey
from nekro_core.llm.embedded.model import EmbeddedPhase
from nekro_core.llm.embedded.weights import WeightsError
from nekro_core.llm.model import ModelUnreachable
from nekro_core.llm.probe import ProbeResult
from nekro_core.llm.probe.texts import TEXTS
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.operator.errors import ChangedMeanwhile, InvalidParameters, NoSuchItem
from nekro_core.operator.models import Models
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.system.setting_info import SettingLocked
from tests.llm.conformance import ask, words_of
from tests.llm.embedded.hub_and_index import Site, serving
from tests.llm.embedded.test_library import FILE, MODEL
from tests.peers.scripted_model import Answer, Asked, Reply, ScriptedModelServer

OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.PAGE)
OLGA = Actor(name="olga", role=AccessRole.OWNER, origin=RequestOrigin.PAGE)
KEY = "sk-test-0123456789abcdef"
CHAT = ChatKey.parse("web-private_lin")

pytestmark = pytest.mark.jail


def reply(asked: Asked) -> Reply:
    if asked.path.endswith("/models"):
        return Answer(status=404, error={"message": "no list"})
    return "1 2 3 4 5 6 7 8 9 10"


@pytest.fixture
async def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    """A bot that reads its settings from files."""
    for name in os.environ:
        if name.upper().startswith("NEKRO_") or name in ("HOST", "PORT", "ENVIRONMENT"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    settings = Settings.load()
    async with App.open(settings, {}, model=ScriptedModel(lambda _: "hi")) as running:
        yield running


@pytest.fixture
def models(app: App) -> Models:
    return app.operations.models


async def test_a_model_is_added_changed_and_removed_while_the_bot_runs(
    app: App, models: Models
) -> None:
    async with ScriptedModelServer(reply, api_key=KEY) as server:
        fields = {"base_url": server.base_url, "model": "quick", "vision": True}
        await models.put(OTTO, group="fast", fields=fields, api_key=SecretStr(KEY))
        default, fast = await models.all(OTTO)
        assert default.embedded
        assert (fast.group, fast.has_key, fast.fields) == ("fast", True, fields)
        assert fast.price.source == "unknown"
        await models.put(OTTO, group="fast", fields={"model": "quicker", "vision": None})
        fast = (await models.all(OTTO))[1]
        assert fast.fields == {"base_url": server.base_url, "model": "quicker"}
        assert fast.has_key
        await models.remove(OTTO, group="fast")
        assert [each.group for each in await models.all(OTTO)] == ["default"]
        with pytest.raises(NoSuchItem):
            await models.remove(OTTO, group="fast")


async def test_a_change_without_a_key_can_be_undone(models: Models) -> None:
    fields = {"base_url": "http://127.0.0.1:9/v1", "model": "one"}
    added = await models.put(OTTO, group="fast", fields=fields)
    changed = await models.put(OTTO, group="fast", fields={"model": "two", "vision": True})
    assert added.undoable
    assert changed.undoable
    row = await models.audit_log.rows.one(changed.entry_id)
    assert row is not None
    assert '"model": "one"' in row.undo_parameters
    assert '"vision": null' in row.undo_parameters


async def test_the_later_of_two_changes_of_a_model_is_refused(models: Models) -> None:
    fields = {"base_url": "http://127.0.0.1:9/v1", "model": "one"}
    await models.put(OTTO, group="fast", fields=fields, expected={})
    await models.put(OTTO, group="fast", fields={"model": "two"}, expected=fields)
    with pytest.raises(ChangedMeanwhile, match="'fast'"):
        await models.put(OTTO, group="fast", fields={"model": "three"}, expected=fields)
    with pytest.raises(ChangedMeanwhile):
        await models.put(OTTO, group="fast", fields=fields, expected={})
    assert (await models.all(OTTO))[1].fields["model"] == "two"


async def test_a_saved_key_is_not_sent_to_another_address(app: App, models: Models) -> None:
    async with ScriptedModelServer(reply) as thief:
        fields = {"base_url": "http://127.0.0.1:9/v1", "model": "one"}
        await models.put(OTTO, group="fast", fields=fields, api_key=SecretStr(KEY))
        elsewhere = {"base_url": thief.base_url}
        for act in (models.test, models.put):
            with pytest.raises(InvalidParameters, match="another address"):
                await act(OTTO, group="fast", fields=elsewhere)
        through = {"proxy": thief.base_url}  # a proxy can read the requests to an http address
        for act in (models.test, models.put):
            with pytest.raises(InvalidParameters, match="or proxy"):
                await act(OTTO, group="fast", fields=through)
        assert thief.requests == []
        await models.put(OTTO, group="fast", fields=through, api_key=SecretStr(KEY))
        await models.put(OTTO, group="fast", fields={"proxy": None})


async def test_a_viewer_does_not_see_values_that_look_like_secrets(models: Models) -> None:
    fields: dict[str, JsonValue] = {
        "base_url": "http://127.0.0.1:9/v1",
        "model": "one",
        "proxy": "http://otto:hunter22@proxy:1080",
        "extra_body": {"api_key": "hunter22"},
    }
    await models.put(OTTO, group="fast", fields=fields)
    assert "hunter22" in repr(await models.all(OTTO))
    shown = repr(await models.all(replace(OTTO, role=AccessRole.VIEWER)))
    assert "hunter22" not in shown
    assert "http://otto:***@proxy:1080" in shown


async def test_a_key_is_in_no_audit_entry(models: Models) -> None:
    fields = {"base_url": "http://127.0.0.1:9/v1", "model": "one"}
    await models.put(OTTO, group="fast", fields=fields, api_key=SecretStr(KEY))
    await models.test(OTTO, group="fast")
    await models.remove(OTTO, group="fast")
    rows = await models.audit_log.rows.newest()
    assert len(rows) == 3
    assert KEY not in repr(rows)


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"base_url": "ftp://x", "model": "a"}, "fields.base_url"),
        ({"base_url": "http://x/v1", "model": "a", "retries": 99}, "fields.retries"),
        ({"base_url": "http://x/v1", "model": "a", "colour": 1}, "fields.colour"),
        ({"base_url": "http://x/v1", "model": "a", "api_key": KEY}, "fields.api_key"),
        ({"model": "a"}, "fields"),
        ({}, "fields.base_url"),
    ],
)
async def test_impossible_settings_are_refused_at_their_field(
    models: Models, fields, place
) -> None:
    with pytest.raises(InvalidParameters) as raised:
        await models.put(OTTO, group="fast", fields=fields)
    assert place in raised.value.problems
    assert KEY not in str(raised.value)
    with pytest.raises(InvalidParameters):
        await models.put(OTTO, group="Not A Name", fields={"base_url": "http://x/v1"})


async def test_a_test_reports_each_step_and_its_progress(models: Models) -> None:
    told: list[str] = []
    verdicts: list[str] = []

    class Told:
        def found(self, result: ProbeResult) -> None:
            verdicts.append(result.verdict.value)

        def report(
            self, text: str, *, done: float = 0.0, total: float = 0.0, code: str = "", **values: Any
        ) -> None:
            assert code == "" or TEXTS[code.removeprefix("probe.")].format(**values) == text
            told.append(f"{done:g}/{total:g} {text}")

    async with ScriptedModelServer(reply) as server:
        given = {"fields": {"base_url": server.base_url, "model": "quick"}}
        done = await models.test.invoke(OTTO, given, Told())
    assert done.result.usable
    assert told[0].startswith("1/10 ")
    assert len(told) == 10
    assert verdicts == [each.verdict.value for each in done.result.steps]


async def test_a_model_is_written_into_the_files_of_the_settings(app: App, models: Models) -> None:
    file, secrets = app.host.data_dir / "settings.toml", app.host.data_dir / "secrets.toml"
    fields = {"base_url": "http://127.0.0.1:9/v1", "model": "one", "extra_body": {"seed": 7}}
    await models.put(OTTO, group="fast", fields=fields, api_key=SecretStr(KEY))
    written = tomllib.loads(file.read_text())
    assert written == {"models": {"fast": fields}}
    assert tomllib.loads(secrets.read_text()) == {"models": {"fast": {"api_key": KEY}}}
    await models.put(OTTO, group="default", fields=fields)
    assert app.runtime.models.llm.model == "one"
    with pytest.raises(SettingsError, match="mode"):
        await app.operations.settings.set(OLGA, values={"agent.mode": "neither"})
    await models.remove(OTTO, group="default")
    assert (await models.all(OTTO))[0].embedded
    assert app.runtime.models.llm.model_fields_set == set()


async def test_a_model_that_the_environment_defines_cannot_be_changed_by_an_operator(
    app: App, models: Models, tmp_path: Path
) -> None:
    written = "NEKRO_MODELS__FAST__BASE_URL=http://127.0.0.1:9/v1\nNEKRO_MODELS__FAST__MODEL=one\n"
    (tmp_path / ".env").write_text(written)
    with pytest.raises(SettingLocked, match="NEKRO_MODELS__FAST__"):
        await models.put(
            OTTO, group="fast", fields={"base_url": "http://127.0.0.1:9/v1", "model": "two"}
        )
    assert not (app.host.data_dir / "settings.toml").exists()


async def test_a_model_that_is_changed_in_the_settings_file_is_used_at_once(
    app: App, models: Models
) -> None:
    file = app.host.data_dir / "settings.toml"
    file.write_text('[models.fast]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "one"\n')
    await app.settings.look()
    assert [each.group for each in await models.all(OTTO)] == ["default", "fast"]
    fast = app.runtime.models.named.get("fast")
    assert fast is not None
    file.write_text(file.read_text().replace("one", "two"))
    await app.settings.look()
    assert fast.profile.name == "two"


async def test_models_cannot_be_changed_if_a_program_gave_the_bot_its_settings(
    tmp_path: Path,
) -> None:
    settings = Settings(nekro_data_dir=tmp_path, _env_file=None)  # type: ignore[call-arg]
    async with App.open(settings, {}, model=ScriptedModel(lambda _: "hi")) as app:
        fields = {"base_url": "http://x/v1", "model": "one"}
        with pytest.raises(SettingsUnreadable, match="given by a program"):
            await app.operations.models.put(OTTO, group="fast", fields=fields)


async def test_presets_and_published_prices_are_listed(app: App) -> None:
    models = app.operations.models
    assert "deepseek" in {each.key for each in await models.presets(OTTO)}
    known = await models.known(OTTO, model="gpt-4o", base_url="https://api.openai.com/v1")
    assert known is not None
    assert known.context_tokens == 128_000
    assert await models.known(OTTO, model="no-such-model") is None


async def test_a_model_file_is_downloaded_chosen_and_removed(app: App, tmp_path: Path) -> None:
    area = app.operations.embedded
    source = tmp_path / "mine.gguf"
    source.write_bytes(FILE)
    with serving(Site(hub_file=FILE, hub_sha256=hashlib.sha256(FILE).hexdigest())) as site:
        await area.download(OTTO, url=f"{site.url}{MODEL}")
    await area.copy(OLGA, path=source)
    shown = await area.show(OTTO)
    assert [each.file.name for each in shown.weights] == ["mine.gguf", "small.gguf"]
    assert shown.weights[0].fits
    assert shown.memory.total > shown.weights[0].memory > len(FILE)
    chosen = await area.use(OTTO, file="mine.gguf")
    assert chosen.undoable
    assert [each.chosen for each in (await area.show(OTTO)).weights] == [True, False]
    state = app.runtime.models.embedded_state
    assert state is not None
    assert state.phase is EmbeddedPhase.IDLE
    with pytest.raises(InvalidParameters, match="uses it"):
        await area.remove(OTTO, file="mine.gguf")
    with pytest.raises(ModelUnreachable):  # the file is a header without weights
        await app.runtime.models.default.prepare()
    state = app.runtime.models.embedded_state
    assert state is not None
    assert (state.phase, state.file) == (EmbeddedPhase.FAILED, "mine.gguf")
    assert state.reason
    await area.use(OTTO)
    await area.remove(OTTO, file="mine.gguf")
    with pytest.raises(WeightsError, match="no model file"):
        await area.use(OTTO, file="mine.gguf")


async def test_the_models_of_a_role_are_set_shown_and_reset(app: App, models: Models) -> None:
    def answer(asked: Asked) -> Reply:
        return (
            Answer(status=401, error={"message": "bad key"}) if "wrong" in str(asked.body) else "hi"
        )

    async with ScriptedModelServer(answer) as server:
        for group in ("wrong", "right"):
            await models.put(
                OTTO, group=group, fields={"base_url": server.base_url, "model": group}
            )
        done = await models.set_role(OTTO, role="chat", names=["wrong", "right"])
        assert done.result.names == ("wrong", "right")
        model = app.runtime.services.policies.of(CHAT).model
        async with model.stream(ask("hello")) as deltas:
            assert words_of([each async for each in deltas]) == "hi"
        chat, *others = await models.roles(OTTO)
        first, second = chat.models
        assert (first.name, first.state, first.reason) == ("wrong", "open", "key")
        assert "bad key" in first.detail
        assert (second.name, second.state, second.reason) == ("right", "closed", "")
        assert all(not each.names for each in others)
        with pytest.raises((SettingsError, InvalidParameters), match="no-such"):
            await models.set_role(OTTO, role="quick", names=["no-such"])
        with pytest.raises((SettingsError, InvalidParameters), match="wrong"):
            await models.remove(OTTO, group="wrong")
        await models.set_role(OTTO, role="chat", names=[])
        assert [each.name for each in (await models.roles(OTTO))[0].models] == ["default"]
