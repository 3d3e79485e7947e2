"""A command can ask a question. The person's next message is the answer."""

from pathlib import Path

import anyio

from nekro_core.chat import ChatKey
from tests.plugins.commands.sources import ASKING
from tests.plugins.commands.talk import talk


async def test_a_question_waits_for_the_persons_next_message(tmp_path: Path) -> None:
    async with talk(tmp_path, asking="TIME = 60.0\n" + ASKING) as chat:
        assert await chat.say("/delete cat") == ["Delete cat?\n1. yes\n2. no"]
        assert not chat.receive("what?", by="10002"), "only the person who was asked may answer"
        assert not chat.receive("yes", chat=ChatKey.parse("onebot_v11-private_10001"))
        assert await chat.say("1") == ["yes: cat (10001)"]
        assert not chat.receive("1"), "the question was already answered"
        await chat.say("/delete dog")
        assert await chat.say("No") == ["no: dog (10001)"]
        await chat.say("/delete dog")
        assert await chat.say("well, perhaps later") == ["well, perhaps later: dog (10001)"]
        assert not chat.receive("/confirm yes"), "people cannot type an internal command"


async def test_after_an_invalid_answer_the_question_is_repeated(tmp_path: Path) -> None:
    code = ASKING.replace("answer: str", 'answer: Literal["yes", "no"]')
    async with talk(tmp_path, asking="TIME = 60.0\n" + code) as chat:
        await chat.say("/delete cat")
        again = "answer: “maybe” does not fit, expected yes | no.\n1. yes\n2. no"
        assert await chat.say("maybe") == [again]
        assert await chat.say("maybe") == [again]
        assert await chat.say("2") == ["no: cat (10001)"]
        assert not chat.receive("2")
    async with talk(tmp_path, asking="TIME = 0.2\n" + code) as chat:
        await chat.say("/delete cat")
        await chat.say("maybe")
        with anyio.fail_after(30):
            while chat.texts[-1] != "Never mind.":
                await anyio.sleep(0.01)
        assert chat.router.at_work == 0


async def test_a_new_question_or_command_ends_the_old_one(tmp_path: Path) -> None:
    async with talk(tmp_path, asking="TIME = 60.0\n" + ASKING) as chat:
        await chat.say("/delete cat")
        await chat.say("/delete dog")
        assert await chat.say("yes") == ["yes: dog (10001)"]
        await chat.say("/delete cat")
        await chat.say("/help")
        assert not chat.receive("yes")
        with anyio.fail_after(30):
            while chat.router.at_work:
                await anyio.sleep(0.001)


async def test_a_question_without_an_answer_expires(tmp_path: Path) -> None:
    async with talk(tmp_path, asking="TIME = 0.01\n" + ASKING) as chat:
        assert await chat.say("/delete cat", replies=2) == [
            "Delete cat?\n1. yes\n2. no",
            "Never mind.",
        ]
        assert not chat.receive("yes")
        assert chat.router.at_work == 0


async def test_a_person_without_an_id_cannot_be_asked(tmp_path: Path) -> None:
    async with talk(tmp_path, asking="TIME = 60.0\n" + ASKING) as chat:
        (told,) = await chat.say("/delete cat", by="")
        assert "cannot tell who you are" in told
        assert not chat.receive("yes", by="")
