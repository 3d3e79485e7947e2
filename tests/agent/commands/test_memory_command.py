"""``/memory`` shows and changes what the bot remembers. ``/compact`` replaces the old messages of
the prompt by a summary."""

from pathlib import Path

from nekro_core.chat import ChatKey, File, Role, Text
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.memory.notes.book import NewNote
from tests.agent.bot import GROUP, Bot, running_bot
from tests.agent.commands.test_policy_commands import command
from tests.agent.conftest import BoxCache
from tests.agent.session.test_sessions import answer

OTHER = ChatKey.parse("fake-group_40004")


async def keep(bot: Bot, text: str, chat: ChatKey = GROUP, **fields: object) -> int:
    kept = await bot.memory.notes.keep(chat, NewNote(text=text, **fields))  # type: ignore[arg-type]
    assert kept is not None
    return kept.note.note_id


async def test_a_member_sees_changes_and_deletes_what_is_remembered_about_them(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([answer("hi")])) as bot:
        await bot.say("hello", GROUP, user="10001")
        empty = await command(bot, "/memory", user="10001")
        assert "I keep 0 notes of what people said, and 0 summaries" in empty
        assert "About you I have noted nothing here." in empty
        tea = await keep(bot, "likes tea", about_id="10001", about_name="Lin")
        await keep(bot, "has a dog", about_id="20002", about_name="Mia", said_by="20002")
        await keep(bot, "hidden elsewhere", OTHER, about_id="10001")
        shown = await command(bot, "/memory", user="10001")
        assert f"{tea}. Lin: likes tea" in shown
        assert "dog" not in shown
        assert "hidden" not in shown
        assert await command(bot, f"/memory edit {tea} likes coffee", user="10001") == (
            "The note is changed."
        )
        assert "likes coffee" in await command(bot, "/memory", user="10001")
        done = await command(bot, "/memory off", user="10001")
        assert done == "I remember nothing about you any more; 2 notes are deleted."
        assert "as you wished" in await command(bot, "/memory", user="10001")
        assert "dog" in await command(bot, "/memory", user="20002")
        await command(bot, "/memory on", user="10001")
        assert "noted nothing" in await command(bot, "/memory", user="10001")


async def test_a_reset_says_that_notes_stay(folder: Path, boxes: BoxCache) -> None:
    async with running_bot(folder, boxes, ScriptedModel([answer("hi")])) as bot:
        await keep(bot, "hidden elsewhere", OTHER)
        begun = await command(bot, "/reset", role=Role.OWNER)
        assert begun.endswith("the files of my boxes.")
        await keep(bot, "the club meets on Mondays")
        begun = await command(bot, "/reset", role=Role.OWNER)
        assert begun.endswith("the files of my boxes. Notes stay; /memory lists them.")
        assert "Mondays" in await command(bot, "/memory chat", role=Role.OWNER)


async def test_a_member_cannot_see_or_change_what_is_remembered_about_others(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([answer("hi")])) as bot:
        dog = await keep(bot, "has a dog", about_id="20002", said_by="20002")
        elsewhere = await keep(bot, "elsewhere", OTHER)
        no = "You can change no note with this number here. /memory lists yours."
        for number in (dog, elsewhere, 10**30, -1, "x", "", f"{dog} {dog}"):
            assert await command(bot, f"/memory forget {number}", user="10001") == no
            assert await command(bot, f"/memory edit {number} gone", user="10001") == no
        assert "Only operators" in await command(bot, "/memory chat", user="10001")
        assert "Write /memory alone" in await command(bot, "/memory all", user="10001")
        owner = {"role": Role.OWNER, "user": "10001"}
        assert "has a dog" in await command(bot, "/memory chat", **owner)
        assert "elsewhere" not in await command(bot, "/memory chat", **owner)
        assert await command(bot, f"/memory forget {dog}", **owner) == "The note is deleted."
        assert await command(bot, "/memory chat", **owner) == "There are no notes here."


async def test_a_person_who_edits_a_note_becomes_its_author(folder: Path, boxes: BoxCache) -> None:
    async with running_bot(folder, boxes, ScriptedModel([answer("hi")])) as bot:
        note = await keep(bot, "Mia sings badly", about_id="20002", said_by="10001")
        await command(bot, f"/memory edit {note} Mia is the boss here", user="20002")
        changed = await bot.memory.notes.get(GROUP, note)
        assert (changed.text, changed.said_by) == ("Mia is the boss here", "20002"), (
            "the words of Mia must not be shown as those of Lin"
        )


async def test_a_link_gives_no_power_over_the_notes_of_the_other_chat(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([answer("hi")])) as bot:
        dog = await keep(bot, "has a dog", OTHER, about_id="20002", said_by="20002")
        private = ChatKey.parse("fake-private_10001")
        await bot.memory.scope.link([GROUP, OTHER, private], "friends")
        no = "You can change no note with this number here. /memory lists yours."
        asked = {"role": Role.OWNER, "user": "10001"}
        for chat in (GROUP, private):
            assert "has a dog" in await command(bot, "/memory chat", chat=chat, **asked)
            assert await command(bot, f"/memory forget {dog}", chat=chat, **asked) == no
            assert await command(bot, f"/memory edit {dog} x", chat=chat, **asked) == no
        assert (await bot.memory.notes.get(OTHER, dog)).text == "has a dog"


async def test_a_taught_file_is_found_only_in_the_chat_that_taught_it(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([answer("hi")])) as bot:
        assert await command(bot, "/learn", user="10001") == "You may not use /learn."
        no_file = await command(bot, "/learn", role=Role.OWNER)
        assert no_file == "Send the file in the same message as /learn."
        keep_bytes = bot.plugins.services.media.keep_bytes
        good = await keep_bytes(GROUP, b"# Door\nIt is vermilion.", name="door.md")
        bad = await keep_bytes(GROUP, b"%PDF-1.4 nothing", name="plan.pdf")
        words = Text("/learn")
        taught = {"role": Role.OWNER, "segments": (words, File(good))}
        assert await command(bot, "", **taught) == "I have read door.md (1 pieces)."
        refused = await command(bot, "", role=Role.OWNER, segments=(words, File(bad)))
        assert "plan.pdf: it is no PDF that can be read" in refused
        (found,) = await bot.memory.knowledge.search(GROUP, "which colour has the door")
        assert found.heading == "Door"
        assert await bot.memory.knowledge.search(OTHER, "door") == []
        bot.memory.knowledge.close()


async def test_compacting_without_a_model_changes_nothing(folder: Path, boxes: BoxCache) -> None:
    async with running_bot(folder, boxes, ScriptedModel([answer("hi")])) as bot:
        await bot.ask("my cat is called Mochi", GROUP, user="10001", to_bot=True)
        assert await command(bot, "/compact", user="10001") == "You may not use /compact."
        no_model = await command(bot, "/compact", role=Role.OWNER)
        assert "no model for summaries" in no_model
        records = await bot.store.messages.newest(GROUP, 20)
        assert not any(each.begins_anew for each in records)


async def test_after_compacting_prompts_lack_old_messages_and_memory_has_a_summary(
    folder: Path, boxes: BoxCache
) -> None:
    class Quick:
        def require(self) -> None:
            """Never raise, because this model always exists."""

        async def ask(self, instructions: str, text: str, *, max_tokens: int) -> str:
            assert "Mochi" in text
            return "The cat of Lin is called Mochi."

    model = ScriptedModel([answer("hi"), answer("yes")])
    async with running_bot(folder, boxes, model) as bot:
        bot.memory.use_model(Quick())
        await bot.ask("my cat is called Mochi", GROUP, user="10001", to_bot=True)
        assert "go on with the summary" in await command(bot, "/compact", role=Role.OWNER)
        await bot.ask("and now?", GROUP, user="10001", to_bot=True)
        assert "my cat is called" not in bot.prompt()
        newest = await bot.store.messages.newest(GROUP, 1)
        shown = await bot.memory.sections(GROUP, before_seq=newest[0].seq, people=[])
        assert "The cat of Lin is called Mochi." in shown.summary
        # The command ``/reset`` deletes the summary too.
        await command(bot, "/reset", role=Role.OWNER)
        newest = await bot.store.messages.newest(GROUP, 1)
        shown = await bot.memory.sections(GROUP, before_seq=newest[0].seq + 1, people=[])
        assert "Mochi" not in shown.summary
