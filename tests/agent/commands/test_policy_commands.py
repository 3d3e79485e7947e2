"""Commands about the bot itself: on, off, observe, persona, permit, quota, status."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import ChatKey, Role
from nekro_core.llm.chains import ModelChains
from nekro_core.llm.model import ModelProfile, ModelUnreachable, Price, PriceSource
from nekro_core.llm.role_settings import RoleSettings
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.policy.permissions import CommandSettings
from nekro_core.policy.settings import TurnSettings
from tests.agent.bot import GROUP, LIN, Bot, fence, running_bot
from tests.agent.conftest import BoxCache
from tests.agent.session.test_sessions import answer
from tests.delivery.fakes import message

OPERATOR = CommandSettings(super_users=frozenset({"fake:boss"}))


async def command(bot: Bot, text: str, chat: ChatKey = GROUP, **more: object) -> str:
    """Run a command. Returns its answer."""
    before = len(bot.said(chat))
    await bot.say(text, chat, **more)
    with anyio.fail_after(30):
        while len(bot.said(chat)) == before:
            await anyio.sleep(0.005)
    return bot.said(chat)[before]


async def test_a_chat_is_observed_switched_off_and_on_again(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([answer("here"), answer("again")])
    async with running_bot(folder, boxes, model) as bot:
        assert await command(bot, "/observe") == "You may not use /observe."
        assert await command(bot, "/observe", role=Role.OWNER) == "I only listen from now on."
        await bot.say("the cake is blue", GROUP, to_bot=True)
        assert await command(bot, "/off", role=Role.ADMIN, user="mei") == (
            "I am off here: I keep nothing of what is said."
        )
        secret = message(GROUP, "the password is hunter2", message_id="secret")
        assert await bot.accept(secret) is None
        assert (await command(bot, "/status")).splitlines()[1] == "Here I am switched off."
        assert await bot.ask("and here?") == ["here"], "other chats are still answered"
        assert await command(bot, "/on", role=Role.ADMIN) == "I am here."
        assert (await bot.ask("what colour?", GROUP, to_bot=True))[-1] == "again"
        assert "the cake is blue" in bot.prompt(), "messages of an observed chat are stored"
        assert "hunter2" not in bot.prompt(), "messages of a chat that is off are not stored"
        assert bot.prompt().count(" NEW\n") == 1, "earlier messages are not answered later"
        assert len(model.requests) == 2


async def test_an_observed_chat_stays_observed_after_a_restart(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([])) as bot:
        await command(bot, "/observe", role=Role.OWNER)
        await bot.say("are you there?", GROUP, to_bot=True)
    async with running_bot(folder, boxes, ScriptedModel([]), recover=True) as bot:
        assert (await command(bot, "/status")).splitlines()[1] == "Here I only listen."
        assert await bot.store.turns.unanswered(since=0) == [], (
            "the recovery must not answer the message"
        )


async def test_a_changed_conduct_file_takes_effect_while_the_bot_runs(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("meow"), answer("woof")])
    async with running_bot(folder, boxes, model) as bot:
        await bot.ask("hello")
        path = folder / "conduct.toml"
        path.write_text('[accounts.fake]\npersona = "You are a dog."\nnames = ["Rex"]\n')
        await bot.services.policies.conduct.look()
        assert await bot.ask("good Rex", GROUP) == ["woof"], (
            "the name of this account wakes the bot"
        )
        system = bot.model.requests[-1].messages[0].parts[0].text
        assert "You are a dog." in system
        assert "Your name: Rex." in system
        path.write_text("persona = 7")
        await bot.services.policies.conduct.look()
        assert bot.services.policies.of(GROUP).persona == "You are a dog.", (
            "an invalid value changes nothing"
        )


async def test_an_operator_sets_and_clears_the_persona_of_a_chat(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("arr")])
    async with running_bot(folder, boxes, model, command=OPERATOR) as bot:
        refused = await command(bot, "/persona You obey everybody.", role=Role.OWNER)
        assert refused == "You may not use /persona.", (
            "only an operator may change the model's instructions"
        )
        assert await command(bot, "/persona", user="boss") == ("Nothing is said of who I am here.")
        told = await command(bot, "/persona You are a pirate.\nSay arr.", user="boss")
        assert told == "That is who I am here from now on."
        await bot.ask("hi", GROUP, to_bot=True)
        assert "You are a pirate.\nSay arr." in bot.model.requests[-1].messages[0].parts[0].text
        assert bot.services.policies.of(LIN).persona == ""
        assert "pirate" in await command(bot, "/persona", user="boss")
        await command(bot, "/persona default", user="boss")
        assert bot.services.policies.of(GROUP).persona == ""


async def test_a_command_is_permitted_in_one_chat(folder: Path, boxes: BoxCache) -> None:
    async with running_bot(folder, boxes, ScriptedModel([]), command=OPERATOR) as bot:
        assert await command(bot, "/permit observe user") == "You may not use /permit."
        await command(bot, "/permit observe user", user="boss")
        assert await command(bot, "/observe") == "I only listen from now on."
        await command(bot, "/permit status off", user="boss")
        assert await command(bot, "/status", user="boss") == "The command /status is switched off."
        assert (await command(bot, "/status", LIN)).startswith("Nekro, nekro-core")
        await command(bot, "/permit status default", user="boss")
        assert (await command(bot, "/status")).startswith("Nekro, nekro-core")
        await command(bot, "/permit observe default", user="boss")
        assert await command(bot, "/observe") == "You may not use /observe."


async def test_quotas_limit_a_person_and_a_chat(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel(lambda _: _said("yes"))
    settings = AgentSettings(turn=TurnSettings(user_turns_a_day=2))
    async with running_bot(folder, boxes, model, command=OPERATOR, settings=settings) as bot:
        assert await bot.ask("one") == ["yes"]
        assert (await bot.ask("two", GROUP, to_bot=True)) == ["yes"]
        used_up = "You have used up what you may ask of me today."
        assert await bot.ask("three") == [used_up]
        assert await bot.ask("four") == [used_up], "the next question is refused too"
        assert await bot.ask("five", GROUP, to_bot=True, user="mei") == ["yes"]
        shown = await command(bot, "/quota", LIN)
        assert shown.splitlines()[0].startswith("Person: 2 of 2 answers")
        assert "To change it" not in shown
        assert "To change it: /quota chat" in await command(bot, "/quota", user="boss")
        assert await command(bot, "/quota lin turns:3", LIN) == (
            "Only an operator may change a quota."
        )
        assert await command(bot, "/quota lin turns:3", user="boss") == "The quota is changed."
        assert await bot.ask("six") == ["yes"]
        await command(bot, "/quota chat turns:2", user="boss")
        assert await bot.ask("seven", GROUP, to_bot=True, user="mei") == [
            "This chat has used up what it may ask of me today."
        ]
        await command(bot, "/quota chat turns:default", user="boss")
        assert await bot.ask("eight", GROUP, to_bot=True, user="mei") == ["yes"]
        assert "chat_quota" not in (folder / "conduct.toml").read_text()


async def test_a_money_quota_uses_published_prices_and_says_so(
    folder: Path, boxes: BoxCache
) -> None:
    price = Price(prompt=1e6, completion=1e6, source=PriceSource.PUBLISHED)
    model = ScriptedModel(lambda _: _said("yes"), profile=ModelProfile(name="m", price=price))
    settings = AgentSettings(turn=TurnSettings(user_money_a_day=1.0))
    async with running_bot(folder, boxes, model, command=OPERATOR, settings=settings) as bot:
        assert await bot.ask("one") == ["yes"]
        assert await bot.ask("two") == ["You have used up what you may ask of me today."]
        shown = await command(bot, "/quota", LIN)
        assert shown.splitlines()[0].endswith(
            "of 1.0 in money (estimated from published prices, in US dollars)"
        )


async def test_a_thread_counts_against_the_quota_of_its_chat(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel(lambda _: _said("yes"))
    async with running_bot(folder, boxes, model, command=OPERATOR) as bot:
        await command(bot, "/quota chat turns:2", user="boss")
        with (folder / "conduct.toml").open("a") as file:
            file.write(f'[chats."{GROUP}#own"]\nchat_quota = {{ turns = 1 }}\n')
        await bot.services.policies.conduct.look()
        first, second, third, own = (
            ChatKey.parse(f"{GROUP}#{thread}") for thread in ("1", "12", "2", "own")
        )
        used_up = "This chat has used up what it may ask of me today."
        assert await bot.ask("one", first, to_bot=True) == ["yes"]
        assert await bot.ask("two", second, to_bot=True) == ["yes"]
        assert await bot.ask("three", third, to_bot=True, user="mei") == [used_up]
        assert await bot.ask("four", GROUP, to_bot=True) == [used_up]
        assert await bot.ask("five", own, to_bot=True) == ["yes"]
        assert await bot.ask("six", own, to_bot=True) == [used_up]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/quota chat turns:many", "A quota is a number"),
        ("/quota chat money:nan", "money: Input should be a finite number"),
        ("/quota chat turns:-1", "turns: Input should be greater than or equal to 0"),
    ],
)
async def test_an_impossible_quota_is_refused(
    folder: Path, boxes: BoxCache, line: str, told: str
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([]), command=OPERATOR) as bot:
        assert told in await command(bot, line, user="boss")


async def test_an_ignored_person_is_not_answered(folder: Path, boxes: BoxCache) -> None:
    folder.mkdir()
    (folder / "conduct.toml").write_text(
        '[bot]\nignore = ["spam"]\n[people."fake:troll"]\nignored = true\n'
    )
    async with running_bot(folder, boxes, ScriptedModel([answer("hi")])) as bot:
        for user in ("spam", "troll"):
            await bot.say("hello", GROUP, to_bot=True, user=user)
            await bot.say("/status", GROUP, user=user)
        assert await bot.ask("hello", GROUP, to_bot=True) == ["hi"]
        assert bot.prompt().count(" NEW\n") == 1
        assert len(bot.model.requests) == 1


async def test_another_model_answers_for_one_account(folder: Path, boxes: BoxCache) -> None:
    other = ScriptedModel([answer("from the other")])
    folder.mkdir()
    (folder / "conduct.toml").write_text('[accounts.fake]\nmodel = "fast"\n')
    models = {"fast": other}
    async with running_bot(folder, boxes, ScriptedModel([]), models=models.get) as bot:
        assert await bot.ask("hi") == ["from the other"]


async def test_commands_answer_in_three_languages(folder: Path, boxes: BoxCache) -> None:
    async with running_bot(folder, boxes, ScriptedModel([])) as bot:
        assert (await command(bot, "/状态", LIN)).splitlines()[1] == "我在这里会回答。"
        assert (await command(bot, "/オフ", LIN)).startswith("ここではオフ")


def _said(text: str) -> str:
    return fence(f"send_channel_message({text!r})")


async def test_status_counts_an_answer_whose_turn_has_not_ended(
    folder: Path, boxes: BoxCache
) -> None:
    go_on = anyio.Event()

    async def slowly() -> AsyncIterator[str]:
        yield fence("send_channel_message('here')")
        await go_on.wait()
        yield "\n"

    async with running_bot(folder, boxes, ScriptedModel([slowly()])) as bot:
        await bot.say("hello")
        with anyio.fail_after(20):
            while not bot.said():
                await anyio.sleep(0.005)
        assert "I am working on something." in await command(bot, "/status", LIN)
        with anyio.move_on_after(0.05) as waiting:
            await bot.sessions.wait_until_idle(LIN)
        assert waiting.cancelled_caught
        go_on.set()
        await bot.sessions.wait_until_idle(LIN)
        said = await command(bot, "/status", LIN)
        assert "I am working" not in said
        assert "1 answer" in said


async def test_operators_set_the_model_or_a_chain_and_everybody_sees_it(
    folder: Path, boxes: BoxCache
) -> None:
    first = ScriptedModel([ModelUnreachable("gone")], profile=ModelProfile(name="first-1"))
    second = ScriptedModel([answer("still here")], profile=ModelProfile(name="second-2"))
    usual = ScriptedModel([], profile=ModelProfile(name="usual-0"))
    models = {"first": first, "second": second}
    chains = ModelChains(RoleSettings(), models.get)
    async with running_bot(folder, boxes, usual, models=chains.of_turns, command=OPERATOR) as bot:
        assert await command(bot, "/model") == "Here answers: usual-0"
        assert await command(bot, "/model first") == "Only an operator may set the model."
        for wrong in ("third", "first,third", "../etc"):
            refused = await command(bot, f"/model {wrong}", user="boss")
            assert refused.startswith("There is no model"), refused
        done = await command(bot, "/model first,second", user="boss")
        assert done == "From now on answers here: first-1"
        assert (await bot.ask("hello", GROUP, to_bot=True))[-1] == "still here"
        lines = (await command(bot, "/model")).splitlines()
        assert lines[0] == "Here answers: second-2"
        assert re.fullmatch(r"- first: first-1, asked again in \d+ s \(not reachable\)", lines[1])
        assert lines[2] == "- second: second-2"
        assert await command(bot, "/model default", user="boss") == (
            "From now on answers here: usual-0"
        )


async def test_an_administrator_sets_whom_the_bot_answers_in_a_group(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("Funny or tense?"), answer("Funny or tense?"), answer("Jaws")])
    async with running_bot(folder, boxes, model) as bot:
        assert await command(bot, "/participation") == "You may not use /participation."
        assert "goes on talking to me" in await command(bot, "/participation", role=Role.OWNER)
        assert await command(bot, "/participation mentioned", role=Role.OWNER) == (
            "I answer whoever mentions me or calls my name."
        )
        await bot.ask("Nekro, a film?", GROUP)
        await bot.say("a tense one", GROUP)
        await command(bot, "/participation default", role=Role.OWNER)
        assert "participation" not in (folder / "conduct.toml").read_text()
        await bot.ask("Nekro, a film?", GROUP)
        assert await bot.ask("a tense one", GROUP) == ["Jaws"]
        assert len(model.requests) == 3
        refused = await command(bot, "/participation always", role=Role.OWNER)
        assert "mentioned" in refused
        assert "lively" in refused
