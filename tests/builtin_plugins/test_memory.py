"""In a whole bot, the AI stores notes and finds them again. Other chats do not see these notes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.llm.model import FunctionCall
from nekro_core.llm.scripted import ScriptedAnswer
from nekro_core.memory.notes.book import NewNote
from nekro_core.store import NoteOrigin
from nekro_core.testing.bot import Bot
from nekro_core.tools.outcome import ToolFailure


@pytest.fixture
async def bot(tmp_path: Path) -> AsyncIterator[Bot]:
    async with Bot.open(tmp_path) as opened:
        yield opened


async def test_what_somebody_asks_to_remember_is_found_again(bot: Bot) -> None:
    chat = bot.chat("group_30003")
    code = 'remember("cannot eat nuts", about="lin")\nsend_channel_message("Noted.")'
    assert await chat.ask("Nekro, remember that I cannot eat nuts", code=code) == ["Noted."]
    (line,) = await chat.call("find_notes", "nuts")
    assert line.endswith(")")
    assert ": cannot eat nuts (about " in line
    key = bot.app.runtime.services.store.messages
    (note,) = await bot.app.memory.notes.listed(chat.key)
    asked = await key.get(note.source_seq)
    assert asked is not None
    assert (note.about_id, note.said_by, asked.sender.user_id) == ("lin", "lin", "lin")
    number = line.partition(":")[0]
    assert await chat.call("forget", int(number)) == "deleted: cannot eat nuts"
    with pytest.raises(ToolFailure, match="no note has a word of 'nuts'"):
        await chat.call("find_notes", "nuts")


async def test_words_beside_a_note_call_are_the_answer_and_no_further_reply_is_requested(
    tmp_path: Path,
) -> None:
    note = FunctionCall(call_id="1", name="remember", arguments={"text": "cannot eat nuts"})
    deletion = FunctionCall(call_id="2", name="forget", arguments={"note_id": 1})
    settings = {"nekro_agent": AgentSettings(mode="tools")}
    async with Bot.open(tmp_path, settings=settings) as bot:
        chat = bot.chat()
        noted = ScriptedAnswer(chunks=["Noted."], calls=[note])
        assert await chat.ask("remember that I cannot eat nuts", reply=[noted]) == ["Noted."]
        forgotten = ScriptedAnswer(chunks=["Forgotten."], calls=[deletion])
        assert await chat.ask("forget that", reply=[forgotten]) == ["Forgotten."]
        assert await chat.call("find_notes") == []


async def test_notes_of_one_chat_are_neither_found_nor_deleted_in_another(bot: Bot) -> None:
    group, other = bot.chat("group_30003"), bot.chat("group_40004")
    private = bot.chat("private_10001")
    said = await private.call("remember", "looks for another job")
    number = int(said.rpartition(" ")[2])
    for chat in (group, other):
        assert await chat.call("find_notes") == []
        with pytest.raises(ToolFailure, match=f"no note {number} here"):
            await chat.call("forget", number)
    assert await private.call("find_notes", "job")


async def test_wrong_arguments_are_refused_with_a_reason(bot: Bot) -> None:
    chat = bot.chat("group_30003")
    for arguments, complaint in (
        ({"text": "  "}, "the note is empty"),
        ({"text": "x" * 501}, "more than 500 characters"),
        ({"text": "likes tea", "about": "nobody"}, "nobody"),
    ):
        with pytest.raises(ToolFailure, match=complaint):
            await chat.call("remember", **arguments)
    assert await chat.call("find_notes") == []


async def test_a_member_cannot_have_the_notes_of_others_deleted(bot: Bot) -> None:
    group, private = bot.chat("group_30003"), bot.chat("private_lin")
    keep = bot.app.memory.notes.keep
    kept = await keep(group.key, NewNote(text="is allergic to nuts", about_id="mia", said_by="mia"))
    assert kept is not None
    rule = await keep(group.key, NewNote(text="no politics", origin=NoteOrigin.OPERATOR))
    assert rule is not None
    for number in (kept.note.note_id, rule.note.note_id):
        with pytest.raises(ToolFailure, match="is not about the person who asks"):
            await group.call("forget", number)
    assert len(await group.call("find_notes")) == 2
    # A link shows the notes in the private chat, but does not make them the person's own.
    await bot.app.memory.scope.link([group.key, private.key], "friends")
    assert len(await private.call("find_notes")) == 2
    with pytest.raises(ToolFailure, match="is not about the person who asks"):
        await private.call("forget", kept.note.note_id)
    own = await private.call("remember", "the door is red")
    assert "deleted" in await private.call("forget", int(own.rpartition(" ")[2]))


async def test_a_found_note_shows_who_said_it_about_somebody_else(bot: Bot) -> None:
    chat = bot.chat("group_30003")
    for who in ("lin", "mia"):
        new = NewNote(text=f"sings in {who}'s choir", about_id="mia", said_by=who)
        await bot.app.memory.notes.keep(chat.key, new)
    others, own = sorted(await chat.call("find_notes", "choir"))
    assert "about mia, said by lin, since" in others
    assert "about mia, since" in own
