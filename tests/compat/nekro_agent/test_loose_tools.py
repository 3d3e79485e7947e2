"""Tools may break rules that nekro-agent does not check, and code in the box may use names of
nekro-agent."""

from nekro_core.chat import File, Image
from nekro_core.plugins.host.listing import PluginState
from tests.compat.nekro_agent.conftest import OpenBot
from tests.compat.nekro_agent.test_conversations import PIXEL


async def test_results_of_another_type_become_text_and_a_warning_is_given_at_load(
    bot_with: OpenBot,
) -> None:
    async with bot_with("loose_tools") as bot:
        info = bot.info
        assert info.state is PluginState.LOADED
        messages = [problem.message for problem in info.problems]
        assert "weather returns dict: the AI gets str() of it" in messages
        assert "forget returns None: the AI gets str() of it" in messages
        assert await bot.call("weather", "Paris") == "{'city': 'Paris', 'sky': 'clear'}"
        assert await bot.call("forget", "the rain") == "forget returned nothing"
        assert await bot.call("note", "tea") == "['noted', 'tea']"


async def test_the_first_parameter_is_the_context_unless_it_is_typed_as_data(
    bot_with: OpenBot,
) -> None:
    async with bot_with("loose_tools") as bot:
        info = bot.info
        assert [tool.name for tool in info.tools] == ["weather", "forget", "note"]
        (refused,) = [each for each in info.problems if each.message.startswith("shout does not")]
        assert "its first parameter is 'text'" in refused.message


async def test_the_result_of_a_behavior_reaches_the_model_once(bot_with: OpenBot) -> None:
    async with bot_with("loose_tools") as bot:
        chat = bot.chat()
        await chat.ask("note that", code="print(note('tea'))\nprint('and then?')", reply="done")
        assert bot.prompt.count("['noted', 'tea']") == 1
        assert "and then?" in bot.prompt


async def test_code_can_use_the_names_that_plugins_show_to_the_model(bot_with: OpenBot) -> None:
    async with bot_with("loose_tools") as bot:
        chat = bot.chat()
        await chat.ask(
            "all of it",
            code="import os\n"
            "send_msg_text(_ck, 'hello ' + _ck)\n"
            "open('./shared/a.txt', 'w').write('a')\n"
            "assert open('/app/shared/a.txt').read() == open('a.txt').read() == 'a'\n"
            "import base64\n"
            f"open('./shared/b.png', 'wb').write(base64.b64decode('{PIXEL}'))\n"
            "send_msg_file(_ck, './shared/a.txt')\n"
            "send_msg_file(_ck, 'shared/b.png')",
        )
        words, text, picture = [each.segments[0] for each in chat.sent]
        assert words.text == f"hello {chat.key}"
        assert isinstance(text, File)
        assert isinstance(picture, Image)
        assert "send_msg_text" not in bot.prompt.replace("send_msg_text(_ck, result)", "")


async def test_code_may_not_write_to_another_chat_by_its_key(bot_with: OpenBot) -> None:
    async with bot_with("loose_tools") as bot:
        chat = bot.chat()
        await chat.ask(
            "elsewhere",
            code="try:\n    send_msg_text('test-group_9', 'hi')\n"
            "except Exception as e:\n    print(e)",
            reply="no",
        )
        assert [str(each.chat_key) for each in chat.sent] == [str(chat.key)]
        assert "test-group_9" in bot.prompt
