"""Plugins that use the less common names of nekro-agent, each in a conversation."""

from nekro_core.chat import File, Mention, Text
from nekro_core.policy.permissions import CommandSettings
from tests.compat.nekro_agent.conftest import OpenBot


async def test_people_and_groups_have_numbers_and_the_operator_is_number_1(
    bot_with: OpenBot,
) -> None:
    async with bot_with("relations") as bot:
        group = bot.chat("group_7")
        assert await group.ask("hello", reply="hi", by="Ann") == ["hi"]
        assert await group.say("/people") == ["['Ann', 'Lin'] ['Lin'] 3"]
        assert await bot.chat("group_8").say("/groups") == ["2 8"]


async def test_an_answer_mentions_the_person_and_says_the_groups_name(bot_with: OpenBot) -> None:
    async with bot_with("relations") as bot:
        group = bot.chat("group_7", name="茶馆")
        await group.say("/where")
        assert group.sent[0].segments == (Mention("lin", "Lin"), Text(" 茶馆, 茶馆"))
        private = bot.chat()
        await private.say("/where")
        assert private.sent[0].segments[1] == Text(" Lin, lin")


async def test_the_bots_own_preset_is_told_from_others(bot_with: OpenBot) -> None:
    async with bot_with("relations") as bot:
        chat = bot.chat()
        assert await chat.say("/identity") == ["默认 未变 []"]
        assert await chat.say("/identity Pirate") == ["1 已变 ['Pirate']"]
        assert await chat.say("/identity") == ["1 未变 ['Pirate']"]


async def test_a_chat_that_is_observed_gets_no_answers(bot_with: OpenBot) -> None:
    settings = {"nekro_command": CommandSettings(super_users=frozenset({"test:lin"}))}
    async with bot_with("relations", settings=settings) as bot:
        chat = bot.chat("group_7")
        assert await chat.say("/watch") == ["1 observed"]
        assert await chat.say("hello") == []
        assert await chat.say("/speak") == ["observe active"]
        assert await chat.ask("hello", reply="hi") == ["hi"]
        assert "hello" in bot.prompt


async def test_a_plugin_sends_through_the_adapter_of_the_chat(bot_with: OpenBot) -> None:
    async with bot_with("herald") as bot:
        chat = bot.chat("group_7", name="茶馆")
        await chat.say("/announce dinner")
        announced, note, answer = chat.sent
        assert announced.segments == (Mention("lin", "Lin"), Text(" dinner"))
        assert isinstance(note.segments[0], File)
        assert answer.segments == (Text("Lin 茶馆"),)
        (refused,) = await chat.say("/announce dinner chat_key:nowhere")
        assert refused.startswith("失败: ")


async def test_a_plugin_runs_code_in_the_box_of_the_chat(bot_with: OpenBot) -> None:
    async with bot_with("code_lab") as bot:
        chat = bot.chat("group_7")
        assert await chat.say("/exec print(6 * 7)") == ["[NORMAL False] 42"]
        assert await chat.say("/exec who_asks()") == ["[NORMAL False] Lin in group_7"]
        assert await chat.say("/exec open('n.txt', 'w').write('kept')") == ["[NORMAL False]"]
        await chat.ask("read it", code="send_channel_message(open('n.txt').read())")
        assert chat.texts[-1] == "kept"
        assert await chat.say("/exec print(look_up())") == ["[AGENT False] it is 42"]
        (long,) = await chat.say("/exec print('x' * 100)")
        assert long.startswith("[NORMAL True] xxx")
        assert len(long) < 60
        (wrong,) = await chat.say("/exec 1 /")
        assert wrong.startswith("[ERROR ")
        sent = await chat.say("/exec send_channel_message('from code')")
        assert sent[0] == "from code"


async def test_code_that_waits_for_a_tool_cannot_run_more_code(bot_with: OpenBot) -> None:
    async with bot_with("code_lab") as bot:
        chat = bot.chat()
        said = await chat.ask(
            "run it",
            code="try:\n    run_inside('print(1)')\nexcept Exception as e:\n"
            "    send_channel_message(str(e))",
        )
        assert "one piece of code at a time" in said[0]
        parsed = await chat.say("/parse Here: ```python\nprint(1)\n```\nbye")
        assert parsed == ["code: 'print(1)\\n'"]
