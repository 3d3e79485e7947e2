"""``/erase``: it first says what it would erase, erases when it is confirmed, and lets only an
operator erase other people."""

from pathlib import Path

import anyio

from nekro_core.chat import ChatKey, Image, Mention, Text
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.policy.permissions import CommandSettings
from nekro_core.store import Person, PersonTraces
from tests.agent.bot import GROUP, Bot, running_bot
from tests.agent.commands.test_policy_commands import command
from tests.agent.conftest import BoxCache
from tests.agent.pictures import png
from tests.agent.session.test_sessions import answer, until
from tests.delivery.fakes import message

USER = "4044044"
LEAVER = Person(adapter="fake", user_id=USER, instances=("fake",))
OPERATOR = CommandSettings(super_users=frozenset({"fake:boss"}))


async def texts(bot: Bot, chat: ChatKey = GROUP) -> str:
    """Return the text of the chat's newest 100 records."""
    return str([each.segments for each in await bot.store.messages.newest(chat, 100)])


async def test_a_member_erases_their_own_data(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([answer("vermilion, yes"), answer("hello")])
    async with running_bot(folder, boxes, model, command=OPERATOR) as bot:
        picture = await bot.plugins.services.media.keep_bytes(GROUP, png(), name="a.png")
        await bot.say("", GROUP, user=USER, segments=(Text("vermilion"), Image(picture)))
        await bot.ask("what did I say?", GROUP, user=USER, to_bot=True)
        await bot.say("", GROUP, segments=(Mention(USER, "Zaphod"), Text("ochre")))
        refused = await command(bot, f"/erase {USER} sure")
        assert refused == "You may only have yourself forgotten: /erase me."
        plan = await command(bot, "/erase", user=USER)
        assert "I would forget 3 messages in 1 chats, 1 answers" in plan
        assert "vermilion" in await texts(bot), "the plan alone erases nothing"

        done = await command(bot, "/erase me sure", user=USER)
        assert done.startswith("Forgotten: 4 messages in 1 chats, 1 answers"), done
        await until(lambda: bot.commands.at_work == 0)
        left = await texts(bot)
        assert "vermilion" not in left
        assert USER not in left
        assert "ochre" in left, "messages of other people stay"
        assert not Path(picture.path).exists()
        assert bot.plugins.erased == [f"fake:{USER}"]
        assert await bot.ask("hi", GROUP, to_bot=True) == ["hello"]
        assert "vermilion" not in bot.prompt()


async def test_a_member_must_wait_before_they_erase_their_data_again(
    folder: Path, boxes: BoxCache
) -> None:
    """Each erasure rewrites the database file, and meanwhile nothing else can be stored."""
    async with running_bot(folder, boxes, ScriptedModel([]), command=OPERATOR) as bot:
        for said in (
            "Forgotten",
            "You were forgotten a moment ago. It can be done again in 10 min",
        ):
            assert (await command(bot, "/erase me sure", user=USER)).startswith(said)
            await until(lambda: bot.commands.at_work == 0)
        # The erasure also deletes what the person has used of a quota.
        (folder / "conduct.toml").write_text("[bot]\nperson_quota = { turns = 2 }\n")
        await bot.services.policies.conduct.look()
        assert "again in 1440 min" in await command(bot, "/erase me sure", user=USER)
        assert (await command(bot, "/erase me", user=USER)).startswith("I would forget")
        assert (await command(bot, f"/erase {USER} sure", user="boss")).startswith("Forgotten")
        await until(lambda: bot.commands.at_work == 0)


async def test_an_operator_erases_a_persons_private_chat(folder: Path, boxes: BoxCache) -> None:
    private = ChatKey.parse(f"fake-private_{USER}")
    async with running_bot(folder, boxes, ScriptedModel([answer("hi")]), command=OPERATOR) as bot:
        assert await bot.ask("hello", private, user=USER) == ["hi"]
        await command(bot, f"/erase {USER}", user="boss")
        assert "1 messages" in (await command(bot, f"/erase {USER} sure", user="boss"))
        await until(lambda: bot.commands.at_work == 0)
        assert private not in await bot.store.chats.all()
        assert USER not in await texts(bot), "the operator's command with the id is erased too"
        with anyio.fail_after(30):
            while await bot.store.erasing.look(LEAVER) != PersonTraces():
                await anyio.sleep(0.01)


async def test_erased_messages_that_arrive_again_are_dropped(folder: Path, boxes: BoxCache) -> None:
    async with running_bot(folder, boxes, ScriptedModel([]), command=OPERATOR) as bot:
        old = message(GROUP, "vermilion", user=USER, message_id="old", from_history=True, time=9.0)
        await command(bot, "/erase me sure", user=USER)
        await until(lambda: bot.commands.at_work == 0)
        picture = await bot.plugins.services.media.keep_bytes(GROUP, png(), name="a.png")
        assert await bot.accept(old) is None
        shown = message(
            GROUP, user=USER, message_id="b", from_history=True, segments=(Image(picture),)
        )
        assert await bot.accept(shown) is None
        assert not Path(picture.path).exists(), "the picture of a dropped message is deleted"
        other = message(GROUP, "ochre", message_id="other", from_history=True, time=9.0)
        assert await bot.accept(other) is not None
        new = message(GROUP, "I am back", user=USER, message_id="new", time=4e9)
        assert await bot.accept(new) is not None
        assert USER not in (folder / "erased.json").read_text()
