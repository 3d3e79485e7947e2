"""Tests of commands that fail, of replies that must not look like commands to other bots, and of
many commands at once."""

from pathlib import Path

import anyio
import pytest

from nekro_core.chat import ChatKey
from nekro_core.policy.permissions import CommandSettings
from tests.plugins.commands.sources import ASKING, BAD, ECHO, GROUPS, SAME, SHOW
from tests.plugins.commands.talk import talk, talk_with


async def test_a_failed_command_is_answered_without_internal_details(tmp_path: Path) -> None:
    settings = CommandSettings(command_s=1)
    failed = "The command {} failed. The operator finds the reason in the log."
    async with talk_with(settings, tmp_path, bad=BAD) as chat:
        assert await chat.say("/break") == [failed.format("/break")]
        assert await chat.say("/refuse") == ["The command /refuse: there is no such city"]
        assert await chat.say("/odd") == [failed.format("/odd")]
        assert await chat.say("/half", replies=2) == ["first", failed.format("/half")]
        assert await chat.say("/lost") == [failed.format("/lost")]
        assert await chat.say("/hang") == ["The command /hang took too long and was stopped."]
        assert chat.router.at_work == 0


@pytest.mark.parametrize("language", ["en", "zh", "ja"])
async def test_no_reply_looks_like_a_command_to_another_bot(tmp_path: Path, language: str) -> None:
    """If a reply looked like a command, two bots in a group could answer each other forever."""
    settings = CommandSettings(command_s=1, off=frozenset({"lost"}))
    code = BAD + SAME.format("bad")
    async with talk_with(settings, tmp_path, bad=code, echo=ECHO, groups=GROUPS) as chat:
        chat.world.journal.records = [chat.record({"en": "a", "zh": "中", "ja": "あ"}[language])]
        for line in ["/break", "/refuse", "/hang", "/lost", "/help", "/help break", "/echo"]:
            (said,) = await chat.say(line)
            assert not chat.receive(said, by="20002"), said
        for line in ["/sticker", "/help sticker", "/help no", "/roll-dice x", "/sticker add"]:
            (said,) = await chat.say(line)
            assert not chat.receive(said, by="20002"), said


async def test_the_number_of_running_commands_is_limited(tmp_path: Path) -> None:
    settings = CommandSettings(at_once=2)
    async with talk_with(settings, tmp_path, bad=BAD, echo=ECHO) as chat:
        for _ in range(100):
            assert chat.receive("/hang")
        await anyio.wait_all_tasks_blocked()
        assert chat.router.at_work == 2 * 9
        other = ChatKey.parse("onebot_v11-group_2")
        assert await chat.say("/echo hi", chat=other) == ["Lin: hi"]


async def test_unloading_a_plugin_removes_its_commands(tmp_path: Path) -> None:
    code = ECHO + GROUPS + "TIME = 60.0\n" + ASKING + BAD
    async with talk(tmp_path, many=code) as chat:
        for _ in range(3):
            assert len(chat.book) == 1 + 2 + 3 + 2 + 6
            await chat.say("/delete cat")
            chat.receive("/hang", by="10002")
            await anyio.wait_all_tasks_blocked()
            assert chat.router.at_work == 2
            await chat.plugins.disable("me.many")
            assert len(chat.book) == 1
            assert chat.book.family("sticker") is None
            assert chat.router.at_work == 0
            assert not chat.receive("yes")
            assert not chat.receive("/echo hello")
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
async def test_a_faulty_command_is_reported_as_a_problem_of_the_plugin(
    tmp_path: Path, code: str, problem: str
) -> None:
    good = '\n@plugin.mount_command("good")\nasync def good(context): return "good"\n'
    async with talk(tmp_path, bad=good + code) as chat:
        (info,) = chat.plugins.plugins()
        assert info.state.value == "loaded"
        assert any(problem in str(each) and "bad.py" in str(each) for each in info.problems)
        assert await chat.say("/good") == ["good"]
        assert len(chat.book) <= 1 + 200


def test_invalid_command_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="expected adapter:id"):
        CommandSettings(super_users=frozenset({"10001"}))
    with pytest.raises(ValueError, match="without blanks"):
        CommandSettings(prefixes=("",))


async def test_a_path_in_a_command_is_not_read_on_the_host(tmp_path: Path) -> None:
    async with talk(tmp_path, show=SHOW) as chat:
        kept = chat.world.data_dir / "plugin_data" / "me.show" / "kept.txt"
        kept.parent.mkdir(parents=True)
        kept.write_text("a key of the plugin's")
        (said,) = await chat.say(f"/show {kept}")
        assert "[file" not in said
        assert await chat.say("/mine") == ["[file: kept.txt]"]
