"""Measures on sixty realistic replies how early their words would be sent. The figures are in
decision 0043."""

import re
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from nekro_core.agent.turn.code_stream import CodeStream, Prose
from nekro_core.agent.turn.live_words import LEAST_CHARS, LiveWords
from nekro_core.chat import ChatKey, DeliveryState, Receipt

CHAT = ChatKey.parse("fake-private_lin")
REPLIES = Path(__file__).with_name("realistic_replies.txt")


class Sender:
    """Records how much of the reply was written when something was sent."""

    def __init__(self) -> None:
        self.written = 0
        self.at: list[int] = []

    async def send(self, *_: object, run_id: str = "") -> tuple[Receipt, ...]:
        self.at.append(self.written)
        return (Receipt(state=DeliveryState.SENT, message_id="m"),)


def replies(kind: str) -> list[str]:
    found = re.split(r"(?m)^=== (words|code) \|[^\n]*\n", REPLIES.read_text(encoding="utf-8"))[1:]
    pairs = zip(found[::2], found[1::2], strict=True)
    return [text.strip("\n") for each, text in pairs if each == kind]


async def let_others_run() -> None:
    """Let the other tasks of this test run. `anyio.wait_all_tasks_blocked` is not used here: it
    would also wait for the tasks of the boxes that other tests share."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


async def first_sent(reply: str, least: int) -> int | None:
    """The number of characters that the model had written when the first words were sent; None if
    nothing was sent before the end."""
    sender, code = Sender(), CodeStream()

    async def begin() -> str:
        return "run"

    words = LiveWords(CHAT, sender, None, begin, least_chars=least, code_may_follow=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(words.send_finished)
        for start in range(0, len(reply), 4):
            events = code.feed(reply[start : start + 4])
            if code.begun:
                break
            for event in events:
                assert isinstance(event, Prose)
                words.write(event.text)
            words.write("", code.line)
            sender.written = start + 4
            await let_others_run()
        words.end()
    return sender.at[0] if sender.at else None


@pytest.mark.parametrize(
    ("least", "too_early", "early"), [(1, 1, 14), (LEAST_CHARS, 1, 13), (160, 1, 8), (240, 0, 8)]
)
async def test_words_are_sent_early_and_seldom_before_a_code_block(
    least: int, too_early: int, early: int
) -> None:
    code = [await first_sent(reply, least) for reply in replies("code")]
    words = [await first_sent(reply, least) for reply in replies("words")]
    assert (len(code), len(words)) == (30, 30)
    assert sum(each is not None for each in code) == too_early
    assert sum(each is not None for each in words) == early
