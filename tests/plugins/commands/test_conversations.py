"""People type commands, and plugins answer."""

from pathlib import Path

from nekro_core.chat import ChatKey, Image, Media, Mention, Reply, Text
from nekro_core.policy.permissions import CommandSettings
from tests.plugins.commands.sources import ECHO, GROUPS, GUARDED, SAME
from tests.plugins.commands.talk import talk, talk_with
from tests.plugins.world import GROUP


async def test_a_command_is_run_and_answered(tmp_path: Path) -> None:
    async with talk(tmp_path, echo=ECHO) as chat:
        assert await chat.say("/echo  hello   world") == ["Lin: hello   world"]
        assert await chat.say("／echo hi") == ["Lin: hi"]
        assert await chat.say("/E don't worry") == ["Lin: don't worry"]
        assert await chat.say("/复读 好") == ["Lin: 好"]
        assert await chat.say('/echo text:"a b" ') == ["Lin: a b"]
        assert await chat.say("/roll_dice") == ["1d6 shy int"]
        assert await chat.say("/ROLL-DICE 20 count:3 mood:bold") == ["3d20 bold int"]
        assert await chat.say("/roll-dice 20 bold 3") == ["3d20 bold int"]


async def test_an_answer_can_mention_the_person(tmp_path: Path) -> None:
    async with talk(tmp_path, echo=ECHO) as chat:
        await chat.say("/echo [@id:10002;nickname:Mei@] and [@id:all@]")
        ((_, segments, _),) = chat.world.outgoing.sent
        assert segments == (
            Text("Lin: "),
            Mention("10002", "Mei"),
            Text(" and "),
            Text("@all"),
        )


async def test_a_message_that_is_not_a_command_is_left_to_the_agent(tmp_path: Path) -> None:
    async with talk(tmp_path, echo=ECHO) as chat:
        assert not chat.receive("echo hello")
        assert not chat.receive("/etc/passwd, what is that?")
        assert not chat.receive("/")
        assert not chat.receive("/" + "x" * 5000)
        assert not chat.receive("look: /echo hello")
        assert not chat.receive("/echo old", from_history=True)
        assert not chat.receive("/echo gone", recalled=True)
        assert not chat.receive(Mention("20009", "another bot"), " /echo hello")
        assert chat.texts == []


async def test_a_command_is_recognized_beside_mentions_and_pictures(tmp_path: Path) -> None:
    async with talk(tmp_path, echo=ECHO) as chat:
        ours = Mention("20001", "Nekro")
        assert await chat.say(ours, " /echo hello", to_bot=True) == ["Lin: hello"]
        assert await chat.say(Reply("7"), "/echo hello") == ["Lin: hello"]
        assert await chat.say("/echo ", Mention("10002", "Mei"), " hi") == ["Lin: 10002  hi"]
        picture = Image(Media(path="/nowhere"))
        assert await chat.say(picture, "/echo look") == ["Lin: look"]


async def test_a_wrong_argument_is_answered_with_the_usage(tmp_path: Path) -> None:
    async with talk(tmp_path, echo=ECHO) as chat:
        usage = "/roll-dice [sides:6] [mood:shy] [count:1]"
        for line, fault in {
            "/roll-dice many": "sides: “many” does not fit, expected int.",
            "/roll-dice 101": "sides: “101” is not within 2 … 100.",
            "/roll-dice sides:1e999": "sides: “1e999” does not fit, expected int.",
            "/roll-dice mood:glum": "mood: “glum” does not fit, expected bold | shy.",
            "/roll-dice 6 shy 1 more": "I do not know what to do with “more”.",
            "/roll-dice sides:6 sides:7": "“sides” is given twice.",
        }.items():
            assert await chat.say(line) == [f"{fault}\n{usage}"]
        assert await chat.say("/echo") == ["“text” is missing. What.\n/echo <text...>"]


async def test_the_answer_is_in_the_language_of_the_chat(tmp_path: Path) -> None:
    async with talk(tmp_path, echo=ECHO) as chat:
        asked = [
            chat.record("/status") for _ in range(12)
        ]  # the language of a command does not change the chat's language
        chat.world.journal.records = [chat.record("今天天气怎么样？"), *asked]
        assert (await chat.say("/echo"))[0].startswith("缺少“text”。")


async def test_each_permission_level_may_run_its_commands(tmp_path: Path) -> None:
    settings = CommandSettings(
        super_users=frozenset({"onebot_v11:10001", "web:*"}),
        advanced_users=frozenset({"onebot_v11:10002"}),
    )
    web = ChatKey.parse("web-group_lobby")
    other = ChatKey.parse("discord-group_1")
    second = ChatKey.parse("onebot_v11.20002-group_1")
    async with talk_with(settings, tmp_path, guarded=GUARDED) as chat:

        async def may(by: str, where: ChatKey) -> list[str]:
            lines = ["/known", "/tune", "/purge"]
            said = [(await chat.say(line, by=by, chat=where))[0] for line in lines]
            assert all(text.startswith("You may not") or " " not in text for text in said)
            return [text for text in said if " " not in text]

        assert await may("10001", GROUP) == ["known", "tuned", "purged"]
        assert await may("10001", second) == ["known", "tuned", "purged"]
        assert await may("10002", GROUP) == ["known", "tuned"]
        assert await may("10003", GROUP) == ["known"]
        assert await may("10001", other) == ["known"], "an id must count only on its own platform"
        assert await may("anybody", web) == ["known", "tuned", "purged"]
        assert await may("*", GROUP) == ["known"]
        assert await may("", GROUP) == []
        (told,) = await chat.say("/who")
        assert told == "10001 super_user onebot_v11-group_30003 onebot_v11"


async def test_the_operators_settings_override_a_commands_permission(tmp_path: Path) -> None:
    settings = CommandSettings(
        permissions={"guarded:purge": "public", "Known": "super_user"}, off=frozenset({"tune"})
    )
    async with talk_with(settings, tmp_path, guarded=GUARDED) as chat:
        assert await chat.say("/purge") == ["purged"]
        assert await chat.say("/known") == ["You may not use /known."]
        assert await chat.say("/tune") == ["The command /tune is switched off."]
        (shown,) = await chat.say("/help")
        assert "/purge" in shown
        assert "/known" not in shown
        assert "/tune" not in shown


async def test_commands_of_a_group_are_run_and_listed(tmp_path: Path) -> None:
    async with talk(tmp_path, stickers=GROUPS) as chat:
        assert await chat.say("/sticker add cat") == ["added cat"]
        assert await chat.say("/sticker.add cat") == ["added cat"]
        assert await chat.say("/sticker ls", replies=2) == ["one", "two"]
        (shown,) = await chat.say("/sticker")
        assert shown.splitlines()[1:] == [
            "/sticker add <name>: Keep one.",
            "/sticker list: Show all.",
        ]
        assert await chat.say("/sticker rename") == [shown]
        assert await chat.say("/sticker hidden") == [shown]
        (told,) = await chat.say("/help sticker add")
        assert told == "How it is used:\n/sticker add <name>: Keep one.\n  name (str): Its name."
        (told,) = await chat.say("/help sticker")
        assert told.startswith("Stickers.\n")


async def test_help_lists_the_commands(tmp_path: Path) -> None:
    async with talk(tmp_path, echo=ECHO, stickers=GROUPS) as chat:
        (shown,) = await chat.say("/help")
        lines = shown.splitlines()
        assert lines[:2] == ["What you can type here:", "/help [command...]: Show the commands."]
        assert lines[3:] == [
            "echo",
            "/echo <text...>: Say it again.",
            "/roll-dice [sides:6] [mood:shy] [count:1]: Roll.",
            "",
            "stickers",
            "/sticker add <name>: Keep one.",
            "/sticker list: Show all.",
        ]
        (shown,) = await chat.say("/help /roll_dice")
        assert "  sides (int): How many sides. [2 … 100]" in shown
        assert await chat.say("/help nothing") == [
            "There is no command “nothing” here. /help lists those that there are."
        ]


async def test_if_there_are_many_commands_help_lists_only_their_names(tmp_path: Path) -> None:
    code = (
        "for number in range(50):\n"
        "    @plugin.mount_command(f'c{number}', 'Does something.')\n"
        "    async def run(context, number: int): ...\n"
    )
    async with talk(tmp_path, many=code, stickers=GROUPS) as chat:
        (shown,) = await chat.say("/帮助")
        assert shown.splitlines()[-1] == "/sticker add, /sticker list"
        assert "/c0, /c1, /c10" in shown
        assert "Does" not in shown


async def test_a_command_name_that_two_plugins_have_needs_the_name_of_the_plugin(
    tmp_path: Path,
) -> None:
    plugins = {"one": SAME.format("one"), "two": SAME.format("two")}
    async with talk(tmp_path, **plugins) as chat:
        (told,) = await chat.say("/echo")
        assert told.splitlines()[1:] == ["/one:echo: From one.", "/two:echo: From two."]
        assert await chat.say("/one:echo") == ["one"]
        assert await chat.say("/me.two:echo") == ["two"]
        await chat.plugins.disable("me.one")
        assert await chat.say("/echo") == ["two"]
    async with talk(tmp_path, order=("me.two",), **plugins) as chat:
        await chat.plugins.enable("me.one")
        assert await chat.say("/echo") == ["two"]
        assert await chat.say("/one:echo") == ["one"]


async def test_a_plugin_cannot_replace_the_bots_own_commands(tmp_path: Path) -> None:
    code = '@plugin.mount_command("help")\nasync def mine(context):\n    return "mine"\n'
    async with talk(tmp_path, sly=code) as chat:
        assert (await chat.say("/help"))[0].startswith("What you can type")
        assert await chat.say("/sly:help") == ["mine"]
