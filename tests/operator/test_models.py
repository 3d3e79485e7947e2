"""An operator lists, tests, adds, changes and removes models. Keys are never shown or sent away."""

import hashlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from nekro_core.app import App
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey
from nekro_core.llm.embedded import EmbeddedPhase, EmbeddedSettings, WeightsError
from nekro_core.llm.embedded.library import ModelFiles
from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.model import ModelUnreachable
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.llm.settings import LLMSettings
from nekro_core.operator.embedded import Embedded
from nekro_core.operator.errors import InvalidParameters, NoSuchItem
from nekro_core.operator.models import Models, ModelsNotWritable
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from tests.llm.embedded.hub_and_index import Site, serving
from tests.llm.embedded.test_library import FILE, MODEL
from tests.peers.scripted_model import Answer, Asked, Reply, ScriptedModelServer

OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.PAGE)
KEY = "sk-test-0123456789abcdef"
CHAT = ChatKey.parse("web-private_lin")

pytestmark = pytest.mark.jail


def reply(asked: Asked) -> Reply:
    if asked.path.endswith("/models"):
        return Answer(status=404, error={"message": "no list"})
    return "1 2 3 4 5 6 7 8 9 10"


class AppliedAtOnce:
    """Applies written settings to the bot. Does what the settings' files and their reader do."""

    def __init__(self, app: App) -> None:
        self._models = app.runtime.models
        self.written: list[Mapping[str, Any]] = []

    async def set(self, values: Mapping[str, Any]) -> object:
        self.written.append(values)
        fields: dict[str, dict[str, Any]] = {"": _fields(self._models.llm)}
        embedded = self._models.embedded
        for name, group in self._models.groups.items():
            fields[name] = _fields(group)
        for name, value in values.items():
            room, _, rest = name.partition(".")
            if room == "embedded":
                embedded = EmbeddedSettings(**({rest: value} if value else {}))
                continue
            group, field = ("", rest) if room == "llm" else tuple(rest.split("."))
            table = fields.setdefault(group, {})
            table[field] = value
            if value is None:
                del table[field]
        llm = LLMSettings(**fields.pop(""))
        groups = {name: ModelGroupSettings(**table) for name, table in fields.items() if table}
        return await self._models.replace(llm, groups, embedded)


def _fields(settings: LLMSettings) -> dict[str, Any]:
    return {**settings.model_dump(exclude_unset=True)}


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    settings = Settings(nekro_data_dir=tmp_path, _env_file=None)  # type: ignore[call-arg]
    async with App.open(settings, {}, model=ScriptedModel(lambda _: "hi")) as running:
        yield running


@pytest.fixture
def models(app: App) -> Models:
    return Models(app.operations.audit.audit_log, app.runtime.models, AppliedAtOnce(app))


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


async def test_a_change_without_a_key_can_be_taken_back(models: Models) -> None:
    fields = {"base_url": "http://127.0.0.1:9/v1", "model": "one"}
    added = await models.put(OTTO, group="fast", fields=fields)
    changed = await models.put(OTTO, group="fast", fields={"model": "two", "vision": True})
    assert added.undoable
    assert changed.undoable
    row = await models.audit_log.rows.one(changed.entry_id)
    assert row is not None
    assert '"model": "one"' in row.undo_parameters
    assert '"vision": null' in row.undo_parameters


async def test_a_saved_key_is_not_sent_to_another_address(app: App, models: Models) -> None:
    async with ScriptedModelServer(reply) as thief:
        fields = {"base_url": "http://127.0.0.1:9/v1", "model": "one"}
        await models.put(OTTO, group="fast", fields=fields, api_key=SecretStr(KEY))
        elsewhere = {"base_url": thief.base_url}
        for act in (models.test, models.put):
            with pytest.raises(InvalidParameters, match="another address"):
                await act(OTTO, group="fast", fields=elsewhere)
        assert thief.requests == []


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

    class Told:
        def report(self, text: str, *, done: float = 0.0, total: float = 0.0) -> None:
            told.append(f"{done:g}/{total:g} {text}")

    async with ScriptedModelServer(reply) as server:
        given = {"fields": {"base_url": server.base_url, "model": "quick"}}
        done = await models.test.invoke(OTTO, given, Told())
    assert done.result.usable
    assert told[0].startswith("1/10 ")
    assert len(told) == 10


async def test_settings_that_are_not_written_here_are_refused_aloud(app: App) -> None:
    with pytest.raises(ModelsNotWritable, match="NEKRO_MODELS"):
        await app.operations.models.put(OTTO, group="fast", fields={"base_url": "http://x/v1"})


async def test_presets_and_published_prices_are_listed(app: App) -> None:
    models = app.operations.models
    assert "deepseek" in {each.key for each in await models.presets(OTTO)}
    known = await models.known(OTTO, model="gpt-4o", base_url="https://api.openai.com/v1")
    assert known is not None
    assert known.context_tokens == 128_000
    assert await models.known(OTTO, model="no-such-model") is None


async def test_a_model_file_is_downloaded_chosen_and_removed(app: App, tmp_path: Path) -> None:
    audit, files = app.operations.audit.audit_log, ModelFiles(app.host.data_dir / "models")
    area = Embedded(audit, app.runtime.models, files, AppliedAtOnce(app))
    source = tmp_path / "mine.gguf"
    source.write_bytes(FILE)
    with serving(Site(hub_file=FILE, hub_sha256=hashlib.sha256(FILE).hexdigest())) as site:
        await area.download(OTTO, url=f"{site.url}{MODEL}")
    await area.copy(OTTO, path=source)
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
    with pytest.raises(ModelUnreachable):  # there are no weights in this file
        await app.runtime.models.default.prepare()
    state = app.runtime.models.embedded_state
    assert state is not None
    assert (state.phase, state.file) == (EmbeddedPhase.FAILED, "mine.gguf")
    assert state.reason
    await area.use(OTTO)
    await area.remove(OTTO, file="mine.gguf")
    with pytest.raises(WeightsError, match="no model file"):
        await area.use(OTTO, file="mine.gguf")
