"""``nekro memory export`` and ``nekro memory import`` use a running bot. If there is none, they say
so."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nekro_core.app.instance import find_running_instance
from tests.cli.nekro import nekro, nekro_meanwhile
from tests.e2e.bot_process import BotProcess, running_bot
from tests.peers.scripted_model import ScriptedModelServer

pytestmark = pytest.mark.jail

GROUP = "web-group_30003"
OTHER = "web-group_40004"


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[BotProcess]:
    """A running bot whose data is in the folder in which the commands run."""
    async with (
        ScriptedModelServer(["hello"]) as model,
        running_bot(folder, NEKRO_LLM__BASE_URL=model.base_url, NEKRO_LLM__MODEL="m") as bot,
    ):
        yield bot


def line(text: str, chat: str = GROUP, **fields: object) -> str:
    return json.dumps({"chat_key": chat, "text": text, "since": 1000.5, **fields}) + "\n"


async def test_notes_of_a_running_bot_are_exported_and_imported_only_once(folder: Path) -> None:
    first = line("likes tea", about_id="10001", about_name="Lin", said_by="10001")
    ended = line("the door is red", until=2000.25, kind="decision")
    other = line("喜欢猫", OTHER)
    (folder / "notes.jsonl").write_text(first + ended + other)
    async with running(folder):
        done = await nekro_meanwhile(folder, "memory", "import", "notes.jsonl")
        assert (done.status, done.err) == (0, "")
        assert done.out == "3 notes are new, 0 were here already, 0 lines are left out\n"
        out = await nekro_meanwhile(folder, "memory", "export", "copy.jsonl")
        assert (out.status, out.out) == (0, "copy.jsonl: 3 notes\n")
        copy = folder / "copy.jsonl"
        assert [json.loads(each) for each in copy.read_text().splitlines()] == [
            {"kind": "fact", **json.loads(first)},
            json.loads(ended),
            {"kind": "fact", **json.loads(other)},
        ]
        assert copy.stat().st_mode & 0o777 == 0o600, "it has words of people"
        again = await nekro_meanwhile(folder, "memory", "import", "copy.jsonl")
        assert again.out == "0 notes are new, 3 were here already, 0 lines are left out\n"
        one = await nekro_meanwhile(folder, "memory", "export", "--chat", OTHER)
        assert [json.loads(each)["text"] for each in one.out.splitlines()] == ["喜欢猫"]
        # An existing file is never replaced.
        refused = await nekro_meanwhile(folder, "memory", "export", "copy.jsonl")
        assert refused.status == 1
        assert "copy.jsonl" in refused.err
        third = "web-group_50005"
        moved = await nekro_meanwhile(
            folder, "memory", "import", "--chat", third, typed=copy.read_text()
        )
        assert moved.out.startswith("3 notes are new")
        there = await nekro_meanwhile(folder, "memory", "export", "--chat", third)
        assert [json.loads(each)["chat_key"] for each in there.out.splitlines()] == [third] * 3


@pytest.mark.long
@pytest.mark.slow
async def test_a_line_that_cannot_be_imported_is_named_with_its_number(folder: Path) -> None:
    good = "".join(
        line(f"{'long ' * 90}{number}", f"web-group_{number}", about_name="Lin")
        for number in range(1_100)
    )
    (folder / "notes.jsonl").write_text(good + "no json\n" + line("x", colour="red"))
    broken = good.count("\n") + 1
    assert len(good) > 550_000, "the lines must go to the bot in several requests"
    async with running(folder):
        done = await nekro_meanwhile(folder, "memory", "import", "notes.jsonl")
        assert done.status == 1, "a script must notice that lines are left out"
        first, second = done.err.splitlines()
        assert first == f"line {broken}: it is no JSON"
        assert second.startswith(f"line {broken + 1}: it has 'colour'; known are about_id, ")
        assert f"{broken - 1} notes are new" in done.out
        missing = await nekro_meanwhile(folder, "memory", "import", "missing.jsonl")
        assert (missing.status, missing.out) == (1, "")
        assert "missing.jsonl" in missing.err
        odd = await nekro_meanwhile(folder, "memory", "export", "--chat", "odd")
        assert odd.status == 1
        assert "odd" in odd.err


def test_without_a_running_bot_the_commands_say_so_and_change_nothing(folder: Path) -> None:
    (folder / "notes.jsonl").write_text(line("likes tea"))
    for arguments in (("import", "notes.jsonl"), ("export", "copy.jsonl"), ("export",)):
        done = nekro(folder, "memory", *arguments)
        assert (done.status, done.out) == (1, "")
        assert done.err == "no bot runs here: start it with nekro run\n"
    assert not (folder / "copy.jsonl").exists()
    # The same after a bot has ended without cleaning up.
    note = {"address": "http://127.0.0.1:1", "port": 1, "token": "x", "pid": 1}
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / "running.json").write_text(json.dumps(note))
    assert find_running_instance(folder / "data") is None
    assert nekro(folder, "memory", "export").err.startswith("no bot runs here")
