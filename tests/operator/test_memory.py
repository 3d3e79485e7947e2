"""An operator sees and changes what is remembered, links chats, and gives the bot documents."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.memory.notes.book import NewNote, NoSuchNote, NoteRefused
from nekro_core.operator.errors import InvalidParameters, NotAllowed, OperatorError
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin

GROUP = ChatKey.parse("onebot_v11-group_30003")
OTHER = ChatKey.parse("onebot_v11-private_10001")
OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.PAGE)
VERA = Actor(name="vera", role=AccessRole.VIEWER, origin=RequestOrigin.PAGE)

pytestmark = pytest.mark.jail


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    settings = Settings(nekro_data_dir=tmp_path, _env_file=None)  # type: ignore[call-arg]
    async with App.open(settings, {}, model=ScriptedModel(lambda _: "hi")) as running:
        yield running


async def test_notes_are_added_changed_ended_and_deleted(app: App) -> None:
    memory, audit = app.operations.memory, app.operations.audit
    text = SecretStr("the vermilion door is open on Friday")
    added = await memory.add_note(OTTO, chat_key=GROUP, text=text)
    number = added.result.note_id
    assert [each.note_id for each in await memory.notes(VERA, chat_key=GROUP)] == [number]
    assert await memory.notes(VERA, chat_key=OTHER) == []
    ended = await memory.end_note(OTTO, chat_key=GROUP, note_id=number)
    assert await memory.notes(VERA, chat_key=GROUP) == []
    await audit.undo(OTTO, entry_id=ended.entry_id)
    assert len(await memory.notes(VERA, chat_key=GROUP, words="doors")) == 1
    changed = SecretStr("the vermilion door is closed")
    await memory.rewrite_note(OTTO, chat_key=GROUP, note_id=number, text=changed)
    await memory.delete_note(OTTO, chat_key=GROUP, note_id=number)
    assert await memory.notes(VERA, chat_key=GROUP, ended=True) == []
    entries = await audit.newest(OTTO)
    assert len(entries) >= 5
    assert "vermilion" not in str(entries), (
        "the audit log is kept when people are erased, so it must not have their words"
    )
    with pytest.raises(NoSuchNote):
        await memory.delete_note(OTTO, chat_key=GROUP, note_id=number)
    with pytest.raises(NoteRefused, match="empty"):
        await memory.add_note(OTTO, chat_key=GROUP, text=SecretStr(" "))
    with pytest.raises(NotAllowed):
        await memory.add_note(VERA, chat_key=GROUP, text=text)


async def test_ending_an_ended_note_and_making_a_valid_note_valid_offer_no_undo(app: App) -> None:
    memory, audit = app.operations.memory, app.operations.audit
    added = await memory.add_note(OTTO, chat_key=GROUP, text=SecretStr("likes tea"))
    name = {"chat_key": GROUP, "note_id": added.result.note_id}
    done = [await act(OTTO, **name) for act in (memory.end_note,) * 2 + (memory.hold_note,) * 2]
    assert [each.undoable for each in done] == [True, False, True, False]
    assert done[1].result == done[0].result
    assert done[3].result == done[2].result
    entries = list(reversed(await audit.newest(OTTO)))[1:]
    assert [(each.old, each.new) for each in entries] == [
        ('"holds"', '"ended"'),
        ('"ended"', '"ended"'),
        ('"ended"', '"holds"'),
        ('"holds"', '"holds"'),
    ]


async def test_chats_are_linked_and_undo_removes_the_link(app: App) -> None:
    memory, audit = app.operations.memory, app.operations.audit
    await app.memory.notes.keep(OTHER, NewNote(text="said in private"))
    assert await memory.notes(VERA, chat_key=GROUP) == []
    linked = await memory.link(OTTO, chat_keys=[GROUP, OTHER], name="friends")
    assert linked.result == [GROUP, OTHER]
    assert len(await memory.notes(VERA, chat_key=GROUP)) == 1
    assert await memory.links(VERA) == {"friends": [GROUP, OTHER]}
    rows = {each.chat_key: (each.notes, each.link) for each in await memory.chats(VERA)}
    assert rows == {GROUP: (0, "friends"), OTHER: (1, "friends")}
    await audit.undo(OTTO, entry_id=linked.entry_id)
    assert await memory.notes(VERA, chat_key=GROUP) == []
    with pytest.raises(NotAllowed):
        await memory.link(VERA, chat_keys=[GROUP, OTHER], name="friends")


async def test_notes_are_exported_and_imported(app: App) -> None:
    memory = app.operations.memory
    keep = app.memory.notes.keep
    await keep(GROUP, NewNote(text="likes tea", about_id="10001", about_name="Lin", since=5.0))
    await keep(OTHER, NewNote(text="喜欢猫"))
    exported = await memory.export_notes(OTTO)
    assert exported.count == 2
    for key in (GROUP, OTHER):
        for note in await memory.notes(VERA, chat_key=key):
            await memory.delete_note(OTTO, chat_key=key, note_id=note.note_id)
    given = SecretStr(exported.lines)
    done = (await memory.import_notes(OTTO, lines=given)).result
    assert (done.kept, done.existed, done.refused_count) == (2, 0, 0)
    (tea,) = await memory.notes(VERA, chat_key=GROUP)
    assert (tea.text, tea.about_name, tea.since) == ("likes tea", "Lin", 5.0)
    again = (await memory.import_notes(OTTO, lines=given)).result
    assert (again.kept, again.existed) == (0, 2)
    assert (await memory.export_notes(OTTO, chat_key=OTHER)).count == 1


async def test_lines_that_cannot_be_imported_are_reported(app: App) -> None:
    memory = app.operations.memory
    good = json.dumps({"chat_key": str(GROUP), "text": "likes tea"})
    lines = "\n".join(
        (
            good,
            "no json",
            "[1]",
            json.dumps({"text": "no chat"}),
            json.dumps({"chat_key": str(GROUP), "text": "x", "colour": "red"}),
            json.dumps({"chat_key": str(GROUP), "text": "x" * 600}),
            json.dumps({"chat_key": str(GROUP), "text": "x", "since": "yesterday"}),
            json.dumps({"chat_key": str(GROUP), "text": "x", "kind": "rumour"}),
            "[" * 100_000,
            "",
        )
    )
    done = (await memory.import_notes(OTTO, lines=SecretStr(lines))).result
    assert (done.kept, done.refused_count) == (1, 8)
    assert [each.partition(":")[0] for each in done.refused] == [f"line {n}" for n in range(2, 10)]
    assert "it is no JSON" in done.refused[0]
    assert "'colour'" in done.refused[3]
    assert "seconds since 1970" in done.refused[5]


async def test_an_old_export_brings_neither_erased_people_nor_corrected_notes_back(
    app: App,
) -> None:
    memory, erasure = app.operations.memory, app.operations.erasure
    olga = Actor(name="olga", role=AccessRole.OWNER, origin=RequestOrigin.PAGE)
    private = ChatKey.parse("onebot_v11-private_10001")
    lin = {"about_id": "10001", "about_name": "Lin", "said_by": "10001"}
    mia = {"about_id": "20002", "said_by": "20002"}
    for key, text, about in (
        (GROUP, "likes tea", lin),
        (GROUP, "the lake is blue", {"said_by": "10001"}),
        (GROUP, "Mia waits for @10001, on Friday", {}),
        (private, "looks for another job", {}),
        (GROUP, "the meeting is on 3 May", mia),
    ):
        await app.memory.notes.keep(key, NewNote(text=text, since=1000.0, **about))
    old = SecretStr((await memory.export_notes(OTTO)).lines)
    await app.memory.notes.keep(
        GROUP, NewNote(text="the meeting is on 10 May", since=2000.0, **mia)
    )
    await erasure.erase_person(olga, chat_key=GROUP, user_id=SecretStr("10001"))
    for _ in range(2):
        done = (await memory.import_notes(OTTO, lines=old)).result
        assert (done.kept, done.existed, done.refused_count) == (0, 1, 4)
        assert all("a person who was erased since then" in each for each in done.refused)
        exported = (await memory.export_notes(OTTO)).lines
        assert "10001" not in exported
        (shown,) = await memory.notes(VERA, chat_key=GROUP)
        assert shown.text == "the meeting is on 10 May"
    # What the person says after the erasure is kept and imported as usual.
    await app.memory.notes.keep(GROUP, NewNote(text="likes coffee", **lin))
    new = SecretStr((await memory.export_notes(OTTO)).lines)
    for note in await memory.notes(VERA, chat_key=GROUP, about_id="10001"):
        await memory.delete_note(OTTO, chat_key=GROUP, note_id=note.note_id)
    done = (await memory.import_notes(OTTO, lines=new)).result
    assert (done.kept, done.refused_count) == (1, 0)


async def test_an_old_note_that_is_imported_late_does_not_end_a_newer_one(app: App) -> None:
    memory = app.operations.memory
    mia = {"about_id": "20002", "said_by": "20002"}
    await app.memory.notes.keep(
        GROUP, NewNote(text="the meeting is on 10 May", since=2000.0, **mia)
    )
    old = json.dumps(
        {"chat_key": str(GROUP), "text": "the meeting is on 3 May", "since": 1000.0, **mia}
    )
    for kept in (1, 0):
        done = (await memory.import_notes(OTTO, lines=SecretStr(old))).result
        assert (done.kept, done.existed) == (kept, 1 - kept)
    (shown,) = await memory.notes(VERA, chat_key=GROUP)
    assert shown.text == "the meeting is on 10 May"
    _, ended = sorted(
        await memory.notes(VERA, chat_key=GROUP, ended=True), key=lambda each: each.holds
    )[::-1]
    assert (ended.text, ended.since, ended.until) == ("the meeting is on 3 May", 1000.0, 2000.0)


async def test_documents_are_given_found_and_deleted(app: App) -> None:
    memory = app.operations.memory
    content = SecretStr(base64.b64encode(b"# Door\nIt is vermilion.").decode())
    put = await memory.put_document(OTTO, name="door.md", content=content)
    assert (put.result.scope, put.result.path, put.result.pieces) == ("bot", "door.md", 1)
    await memory.put_document(OTTO, name="own.md", content=content, chat_key=OTHER)
    found = await memory.search_documents(VERA, chat_key=GROUP, words="vermilion door")
    assert [each.path for each in found] == ["door.md"]
    assert len(await memory.documents(VERA, all_chats=True)) == 2
    assert len(await memory.documents(VERA)) == 1
    assert put.undoable
    other = SecretStr(base64.b64encode(b"# Door\nIt is mauve.").decode())
    again = await memory.put_document(OTTO, name="door.md", content=other)
    assert not again.undoable, "an undo would delete the document and not bring back the earlier"
    with pytest.raises(OperatorError, match="cannot be taken back"):
        await app.operations.audit.undo(OTTO, entry_id=again.entry_id)
    assert [each.path for each in await memory.documents(VERA)] == ["door.md"]
    await memory.delete_document(OTTO, scope="bot", path="door.md")
    assert await memory.documents(VERA) == []
    with pytest.raises(InvalidParameters, match="base64"):
        await memory.put_document(OTTO, name="a.md", content=SecretStr("no base64!"))
    for scope, path in (("bot", "../../nekro.sqlite3"), ("..", "x"), ("chats/x", "y")):
        with pytest.raises(Exception, match="there is no document"):
            await memory.delete_document(OTTO, scope=scope, path=path)
