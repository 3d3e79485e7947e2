"""An operator finds things by a part of their names, and manages the boxes of a chat. The bot is
one process."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.operator.errors import InvalidParameters, NoSuchItem, NotAllowed
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from tests.console.fill_chats import GROUP, fill

OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.PAGE)
VERA = Actor(name="vera", role=AccessRole.VIEWER, origin=RequestOrigin.PAGE)

pytestmark = pytest.mark.jail


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    settings = Settings(nekro_data_dir=tmp_path, _env_file=None)  # type: ignore[call-arg]
    async with App.open(settings, {}, model=ScriptedModel(lambda _: "hi")) as running:
        await fill(running)
        yield running


async def test_chats_plugins_and_settings_are_found_by_a_part_of_their_names(app: App) -> None:
    finder = app.operations.finder
    hits = await finder.find(VERA, text="30003")
    assert [(hit.kind, hit.key) for hit in hits] == [("chat", str(GROUP))]
    assert "llm.base_url" in [hit.key for hit in await finder.find(VERA, text="base_url")]
    assert await finder.find(VERA, text="   ") == []
    assert await finder.find(VERA, text="9" * 30) == []
    assert await finder.find(VERA, text="%_") == []


async def test_one_of_10000_chats_is_found(app: App) -> None:
    newest = await app.operations.chats.newest(VERA)
    seq = newest.chats[0].newest_seq
    known = app.runtime.services.store.messages
    numbers = await known.newest_seqs()
    for number in range(10_000):
        numbers[ChatKey.parse(f"fake-group_{100_000 + number}")] = seq  # type: ignore[index]
    finder = app.operations.finder
    assert [hit.key for hit in await finder.find(VERA, text="109999")] == ["fake-group_109999"]
    assert len(await finder.find(VERA, text="fake", limit=8)) == 8
    assert await finder.find(VERA, text="nobody") == []


async def test_a_file_is_put_into_a_box_and_read_back_until_the_box_is_ended(app: App) -> None:
    boxes = app.operations.boxes
    assert await boxes.of_chat(VERA, chat_key=GROUP) == []
    with pytest.raises(NoSuchItem, match="no box 'default'"):
        await boxes.files(OTTO, chat_key=GROUP)
    content = base64.b64encode(b"a,b\n").decode()
    given = {"chat_key": str(GROUP), "path": "table.csv", "content": content}
    with pytest.raises(NoSuchItem, match="no box"):
        await boxes.put_file.invoke(OTTO, given)
    held = await app.runtime.services.boxes.open(GROUP)
    await app.runtime.services.boxes.close(GROUP, held, changed=False)
    (box,) = await boxes.of_chat(VERA, chat_key=GROUP)
    assert (box.name, box.awake) == ("default", True)
    done = await boxes.put_file.invoke(OTTO, given)
    assert done.result == 4
    assert "table.csv" in (await boxes.files(OTTO, chat_key=GROUP)).paths
    assert await boxes.read_file(OTTO, GROUP, "default", "table.csv") == b"a,b\n"
    (entry, *_) = await app.operations.audit.newest(OTTO, area="boxes")
    assert content not in str(entry)
    assert (await boxes.sleep(OTTO, chat_key=GROUP)).result
    (box,) = await boxes.of_chat(VERA, chat_key=GROUP)
    assert not box.awake
    await boxes.end(OTTO, chat_key=GROUP)
    assert await boxes.of_chat(VERA, chat_key=GROUP) == []


async def test_a_viewer_cannot_wake_a_box_and_a_file_that_is_not_base64_is_refused(
    app: App,
) -> None:
    boxes = app.operations.boxes
    with pytest.raises(NotAllowed, match="needs the role operator"):
        await boxes.files(VERA, chat_key=GROUP)
    given = {"chat_key": str(GROUP), "path": "x", "content": "%%"}
    with pytest.raises(InvalidParameters, match="no base64"):
        await boxes.put_file.invoke(OTTO, given)


async def test_a_bot_that_is_one_process_has_no_list_of_processes_and_names_no_worker(
    app: App,
) -> None:
    cluster = app.operations.cluster
    assert (cluster.several, cluster.node) == (False, "")
    assert await cluster.processes(VERA) == []
    assert await cluster.worker_of(VERA, chat_key=GROUP) == ""
    assert (await app.operations.chats.one(VERA, chat_key=GROUP)).worker == ""
