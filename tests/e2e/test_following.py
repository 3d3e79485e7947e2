"""In a OneBot group the bot continues to answer people who talk to it, and does not answer
others."""

import json
from collections.abc import AsyncIterator

import pytest

from tests.e2e.whole_bot import WholeBot, fence, until, whole_bot

LIN, MEI, TOM = 10001, 10002, 10003


@pytest.fixture(scope="module")
async def whole(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WholeBot]:
    async with whole_bot(tmp_path_factory.mktemp("following")) as whole:
        yield whole


def decisions(whole: WholeBot, group: int) -> list[tuple[str, str, str]]:
    """The text, the decision and the detail of each message that people sent to a group."""
    rows = whole.rows(
        "SELECT segments, decision, decision_detail FROM messages "
        "WHERE chat_key = ? AND author = 'person' ORDER BY seq",
        f"onebot_v11-group_{group}",
    )
    return [
        ("".join(part.get("text", "") for part in json.loads(segments)).strip(), why, detail)
        for segments, why, detail in rows
    ]


async def test_a_question_of_the_bot_is_answered_without_a_mention(whole: WholeBot) -> None:
    group = whole.group(
        fence('send_channel_message("Funny or tense?")'),
        fence('send_channel_message("Then see Airplane!")'),
    )
    await whole.peer.say_in_group(group, MEI, "who has the key of the shed?")
    await whole.peer.say_in_group(group, TOM, "it hangs at the door")
    assert await whole.ask(group, " recommend me a film") == ["Funny or tense?"]
    await whole.peer.say_in_group(group, LIN, "something funny")
    assert (await whole.answers(group, 2))[-1] == "Then see Airplane!"
    await until(lambda: whole.stops(group) == ["finished"] * 2)
    text, why, detail = decisions(whole, group)[-1]
    assert (text, why) == ("something funny", "goes_on")
    assert "answers_question" in detail
    assert [why for _, why, _ in decisions(whole, group)[:2]] == ["not_addressed"] * 2


async def test_the_talk_of_others_does_not_wake_the_bot(whole: WholeBot) -> None:
    group = whole.group(fence('send_channel_message("Funny or tense?")'))
    await whole.ask(group, " recommend me a film")
    for who, text in (
        (MEI, "TOM: did you find the key of the shed?"),
        (TOM, "MEI: yes, it was in my coat"),
        (MEI, "good, I will mow the lawn then"),
    ):
        await whole.peer.say_in_group(group, who, text)
    await until(lambda: len([1 for _, why, _ in decisions(whole, group) if why]) == 4)
    assert [why for _, why, _ in decisions(whole, group)][1:] == ["not_addressed"] * 3
    assert len(whole.prompts(group)) == 1
