"""People type commands, and plugins answer."""

from pathlib import Path

import anyio
import pytest

from nekro_core.chat import ChatKey, Image, Media, Mention, Reply
from nekro_core.plugin.commands.access import CommandSettings
from tests.plugin.commands.talk import talk, talk_with
from tests.plugin.world import GROUP

ECHO = """
@plugin.mount_command("echo", "Say it again.", aliases=["e", "复读"])
async def echo(
    context: CommandExecutionContext, text: str = Arg("What.", greedy=True)
) -> CommandResponse:
    return CmdCtl.success(f"{context.username}: {text}")

@plugin.mount_command("roll-dice", "Roll.")
async def roll(
    context,
    sides: Annotated[int, Arg("How many sides.", positional=True, range=(2, 100))] = 6,
    mood: Literal["bold", "shy"] = "shy",
    count: int = Arg("How often.", default=1),
):
    return f"{count}d{sides} {mood} {type(sides).__name__}"
"""


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


async def test_what_is_no_command_is_left_to_the_agent(tmp_path: Path) -> None:
    async with talk(tmp_path, echo=ECHO) as chat:
        assert not chat.hear("echo hello")
        assert not chat.hear("/etc/passwd, what is that?")
        assert not chat.hear("/")
        assert not chat.hear("/" + "x" * 5000)
        assert not chat.hear("look: /echo hello")
        assert not chat.hear("/echo old", from_history=True)
        assert not chat.hear("/echo gone", recalled=True)
        assert not chat.hear(Mention("20009", "another bot"), " /echo hello")
        assert chat.texts == []


async def test_mentions_and_pictures_around_a_command(tmp_path: Path) -> None:
    async with talk(tmp_path, echo=ECHO) as chat:
        ours = Mention("20001", "Nekro")
        assert await chat.say(ours, " /echo hello", to_bot=True) == ["Lin: hello"]
        assert await chat.say(Reply("7"), "/echo hello") == ["Lin: hello"]
        assert await chat.say("/echo ", Mention("10002", "Mei"), " hi") == ["Lin: 10002  hi"]
        picture = Image(Media(path="/nowhere"))
        assert await chat.say(picture, "/echo look") == ["Lin: look"]


async def test_what_does_not_fit_is_told_with_how_it_is_written(tmp_path: Path) -> None:
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


async def test_the_language_is_that_of_the_people(tmp_path: Path) -> None:
    async with talk(tmp_path, echo=ECHO) as chat:
        asked = [chat.record("/status") for _ in range(12)]  # which is no language
        chat.world.journal.records = [chat.record("今天天气怎么样？"), *asked]
        assert (await chat.say("/echo"))[0].startswith("缺少“text”。")


GUARDED = """
@plugin.mount_command("who", "Say who asks.")
async def who(context):
    return f"{context.user_id} {context.standing} {context.chat_key} {context.adapter_key}"

@plugin.mount_command("known", permission=CommandPermission.USER)
async def known(context):
    return "known"

@plugin.mount_command("tune", permission="advanced")
async def tune(context):
    return "tuned"

@plugin.mount_command("purge", permission=CommandPermission.SUPER_USER)
async def purge(context):
    return "purged"
"""


async def test_who_may_run_what(tmp_path: Path) -> None:
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
        assert await may("10001", other) == ["known"], "an id counts on its own platform alone"
        assert await may("anybody", web) == ["known", "tuned", "purged"]
        assert await may("*", GROUP) == ["known"]
        assert await may("", GROUP) == []
        (told,) = await chat.say("/who")
        assert told == "10001 super_user onebot_v11-group_30003 onebot_v11"


async def test_the_operator_has_the_last_word(tmp_path: Path) -> None:
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


GROUPS = """
stickers = plugin.mount_command_group("sticker", "Stickers.", permission=CommandPermission.USER)

@stickers.command("add", "Keep one.")
async def add(context, name: Annotated[str, Arg("Its name.", positional=True)]):
    return f"added {name}"

@stickers.command("list", "Show all.", aliases=["ls"])
async def show(context):
    yield CmdCtl.message("one")
    yield CmdCtl.message({"zh-CN": "二", "en-US": "two"})

@stickers.command("hidden", internal=True)
async def hidden(context):
    return "hidden"
"""


async def test_commands_of_a_group(tmp_path: Path) -> None:
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


async def test_help_shows_what_there_is(tmp_path: Path) -> None:
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


async def test_many_commands_are_listed_by_name(tmp_path: Path) -> None:
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


SAME = """
@plugin.mount_command("echo", "From {0}.")
async def echo(context):
    return "{0}"
"""


async def test_a_name_that_two_plugins_want(tmp_path: Path) -> None:
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


async def test_the_bots_own_commands_are_nobody_elses(tmp_path: Path) -> None:
    code = '@plugin.mount_command("help")\nasync def mine(context):\n    return "mine"\n'
    async with talk(tmp_path, sly=code) as chat:
        assert (await chat.say("/help"))[0].startswith("What you can type")
        assert await chat.say("/sly:help") == ["mine"]


ASKING = """
@plugin.mount_command("delete")
async def delete(context, name: str):
    return CmdCtl.wait(
        f"Delete {name}?", "confirm", options=["yes", "no"], timeout=TIME,
        on_timeout_message="Never mind.", context_data={"name": name},
    )

@plugin.mount_command("confirm", internal=True)
async def confirm(context, answer: str, name: str = ""):
    return f"{answer}: {name} ({context.user_id})"
"""


async def test_a_question_waits_for_the_persons_next_message(tmp_path: Path) -> None:
    async with talk(tmp_path, asking="TIME = 60.0\n" + ASKING) as chat:
        assert await chat.say("/delete cat") == ["Delete cat?\n1. yes\n2. no"]
        assert not chat.hear("what?", by="10002"), "somebody else was not asked"
        assert not chat.hear("yes", chat=ChatKey.parse("onebot_v11-private_10001"))
        assert await chat.say("1") == ["yes: cat (10001)"]
        assert not chat.hear("1"), "asked once"
        await chat.say("/delete dog")
        assert await chat.say("No") == ["no: dog (10001)"]
        await chat.say("/delete dog")
        assert await chat.say("well, perhaps later") == ["well, perhaps later: dog (10001)"]
        assert not chat.hear("/confirm yes"), "an internal command is nobody's to type"


async def test_what_is_no_answer_is_asked_again_within_the_same_time(tmp_path: Path) -> None:
    code = ASKING.replace("answer: str", 'answer: Literal["yes", "no"]')
    async with talk(tmp_path, asking="TIME = 60.0\n" + code) as chat:
        await chat.say("/delete cat")
        again = "answer: “maybe” does not fit, expected yes | no.\n1. yes\n2. no"
        assert await chat.say("maybe") == [again]
        assert await chat.say("maybe") == [again]
        assert await chat.say("2") == ["no: cat (10001)"]
        assert not chat.hear("2")
    async with talk(tmp_path, asking="TIME = 0.2\n" + code) as chat:
        await chat.say("/delete cat")
        await chat.say("maybe")
        with anyio.fail_after(30):
            while chat.texts[-1] != "Never mind.":
                await anyio.sleep(0.01)
        assert chat.desk.at_work == 0


async def test_a_new_question_or_command_ends_the_old_one(tmp_path: Path) -> None:
    async with talk(tmp_path, asking="TIME = 60.0\n" + ASKING) as chat:
        await chat.say("/delete cat")
        await chat.say("/delete dog")
        assert await chat.say("yes") == ["yes: dog (10001)"]
        await chat.say("/delete cat")
        await chat.say("/help")
        assert not chat.hear("yes")
        with anyio.fail_after(30):
            while chat.desk.at_work:
                await anyio.sleep(0.001)


async def test_a_question_that_nobody_answers(tmp_path: Path) -> None:
    async with talk(tmp_path, asking="TIME = 0.01\n" + ASKING) as chat:
        assert await chat.say("/delete cat", replies=2) == [
            "Delete cat?\n1. yes\n2. no",
            "Never mind.",
        ]
        assert not chat.hear("yes")
        assert chat.desk.at_work == 0


async def test_who_has_no_id_cannot_be_asked(tmp_path: Path) -> None:
    async with talk(tmp_path, asking="TIME = 60.0\n" + ASKING) as chat:
        (told,) = await chat.say("/delete cat", by="")
        assert "cannot tell who you are" in told
        assert not chat.hear("yes", by="")


BAD = """
@plugin.mount_command("break")
async def broken(context):
    raise RuntimeError("the key is sk-1234")

@plugin.mount_command("refuse")
async def refuse(context):
    raise ToolFailure("there is no such city")

@plugin.mount_command("odd")
async def odd(context):
    return 7

@plugin.mount_command("half")
async def half(context):
    yield CmdCtl.message("first")
    raise RuntimeError("then not")

@plugin.mount_command("lost")
async def lost(context):
    return CmdCtl.wait("?", "nowhere")

@plugin.mount_command("hang")
async def hang(context):
    await anyio.sleep_forever()
"""


async def test_a_command_that_goes_wrong_is_told_without_its_secrets(tmp_path: Path) -> None:
    settings = CommandSettings(command_s=1)
    failed = "The command {} failed. The operator finds the reason in the log."
    async with talk_with(settings, tmp_path, bad=BAD) as chat:
        assert await chat.say("/break") == [failed.format("/break")]
        assert await chat.say("/refuse") == ["The command /refuse: there is no such city"]
        assert await chat.say("/odd") == [failed.format("/odd")]
        assert await chat.say("/half", replies=2) == ["first", failed.format("/half")]
        assert await chat.say("/lost") == [failed.format("/lost")]
        assert await chat.say("/hang") == ["The command /hang took too long and was stopped."]
        assert chat.desk.at_work == 0


@pytest.mark.parametrize("language", ["en", "zh", "ja"])
async def test_nothing_that_is_said_is_a_command_for_another_bot(
    tmp_path: Path, language: str
) -> None:
    """Two bots of a group would answer each other for ever."""
    settings = CommandSettings(command_s=1, off=frozenset({"lost"}))
    code = BAD + SAME.format("bad")
    async with talk_with(settings, tmp_path, bad=code, echo=ECHO, groups=GROUPS) as chat:
        chat.world.journal.records = [chat.record({"en": "a", "zh": "中", "ja": "あ"}[language])]
        for line in ["/break", "/refuse", "/hang", "/lost", "/help", "/help break", "/echo"]:
            (said,) = await chat.say(line)
            assert not chat.hear(said, by="20002"), said
        for line in ["/sticker", "/help sticker", "/help no", "/roll-dice x", "/sticker add"]:
            (said,) = await chat.say(line)
            assert not chat.hear(said, by="20002"), said


async def test_a_flood_of_commands_is_bounded(tmp_path: Path) -> None:
    settings = CommandSettings(at_once=2)
    async with talk_with(settings, tmp_path, bad=BAD, echo=ECHO) as chat:
        for _ in range(100):
            assert chat.hear("/hang")
        await anyio.wait_all_tasks_blocked()
        assert chat.desk.at_work == 2 * 9
        other = ChatKey.parse("onebot_v11-group_2")
        assert await chat.say("/echo hi", chat=other) == ["Lin: hi"]


async def test_nothing_of_an_unloaded_plugin_is_left(tmp_path: Path) -> None:
    code = ECHO + GROUPS + "TIME = 60.0\n" + ASKING + BAD
    async with talk(tmp_path, many=code) as chat:
        for _ in range(3):
            assert len(chat.book) == 1 + 2 + 3 + 2 + 6
            await chat.say("/delete cat")
            chat.hear("/hang", by="10002")
            await anyio.wait_all_tasks_blocked()
            assert chat.desk.at_work == 2
            await chat.plugins.disable("me.many")
            assert len(chat.book) == 1
            assert chat.book.family("sticker") is None
            assert chat.desk.at_work == 0
            assert not chat.hear("yes")
            assert not chat.hear("/echo hello")
            await chat.plugins.enable("me.many")


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ('@plugin.mount_command("a b")\nasync def f(context): ...', "cannot be called 'a b'"),
        ('@plugin.mount_command("")\nasync def f(context): ...', "cannot be called ''"),
        ('@plugin.mount_command("a", aliases=["/a"])\nasync def f(context): ...', "'/a'"),
        ('@plugin.mount_command("a")\ndef f(context): ...', "write async def"),
        ('@plugin.mount_command("a")\nasync def f(): ...', "expected 'context'"),
        ('@plugin.mount_command("a")\nasync def f(context, *rest): ...', "greedy=True"),
        ('@plugin.mount_command("a")\nasync def f(context, x: "Nowhere"): ...', "annotations"),
        ('@plugin.mount_command("a")\nasync def f(context, x: object.__init__): ...', "cannot be"),
        (
            "for _ in range(2):\n    @plugin.mount_command('a')\n    async def f(context): ...",
            "there twice",
        ),
        (
            "for n in range(300):\n    @plugin.mount_command(f'a{n}')\n    async def f(_): ...",
            "one command or alias too many",
        ),
    ],
)
async def test_what_is_wrong_with_a_command_is_told_to_its_author(
    tmp_path: Path, code: str, problem: str
) -> None:
    good = '\n@plugin.mount_command("good")\nasync def good(context): return "good"\n'
    async with talk(tmp_path, bad=good + code) as chat:
        (info,) = chat.plugins.plugins()
        assert info.state.value == "loaded"
        assert any(problem in str(each) and "bad.py" in str(each) for each in info.problems)
        assert await chat.say("/good") == ["good"]
        assert len(chat.book) <= 1 + 200


def test_who_is_named_without_a_platform_is_refused() -> None:
    with pytest.raises(ValueError, match="expected adapter:id"):
        CommandSettings(super_users=frozenset({"10001"}))
    with pytest.raises(ValueError, match="without blanks"):
        CommandSettings(prefixes=("",))


SHOW = """
from pathlib import Path

@plugin.mount_command("show", "Show a file.")
async def show(context: CommandExecutionContext, name: str) -> CommandResponse:
    for source in (name, Path(name)):
        await context.ctx.send_file(source)
    return CmdCtl.success("shown")

@plugin.mount_command("mine", "Show my own file.")
async def mine(context: CommandExecutionContext) -> None:
    await context.ctx.send_file(str(plugin.get_plugin_data_dir() / "kept.txt"))
"""


async def test_what_a_member_types_is_no_path_of_the_host(tmp_path: Path) -> None:
    async with talk(tmp_path, show=SHOW) as chat:
        kept = chat.world.data_dir / "plugin_data" / "me.show" / "kept.txt"
        kept.parent.mkdir(parents=True)
        kept.write_text("a key of the plugin's")
        (said,) = await chat.say(f"/show {kept}")
        assert "[file" not in said
        assert await chat.say("/mine") == ["[file: kept.txt]"]
