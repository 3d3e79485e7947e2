"""Checks how an upgraded bot shows the prompts that the old bot sent."""

from collections.abc import Sequence

import anyio

from nekro_core.llm.dialect import body_text
from tests.e2e.read_database import StoreLook
from tests.e2e.whole_bot import LONG_S, WholeBot

NOT_KEPT = "nothing was kept of what the model was shown"


async def check_prompts(bot: WholeBot, look: StoreLook, groups: Sequence[int]) -> int:
    """Check that each stored prompt of the groups is made again byte for byte as the model got it.
    If none is stored, check that the bot says so. Return how many are stored."""
    count = 0
    for group in groups:
        steps = await stored_steps(look, group)
        made = [await shown(bot, *each) for each in steps]
        if made:
            sent = [each.sent for each in bot.prompts(group)]
            assert made == sent, f"the prompts of group {group} are not those that were sent"
        for turn_id in () if made else await look.column(_turns_of(group)):
            said = await shown(bot, turn_id, 0)
            assert isinstance(said, str), "a prompt that nobody stored is shown"
            assert NOT_KEPT in said, said
            assert f"turn {turn_id}" in said, said
        count += len(made)
    return count


async def shown(bot: WholeBot, turn_id: int, step: int) -> bytes | str:
    """The prompt of a step as the console shows it, or the text of the error."""
    asked = {"turn_id": turn_id, "step": step}
    answer = await bot.web.get("/operator/turns/shown", params=asked)
    if answer.status_code != 200:
        return str(answer.json()["error"]["message"])
    prompt = answer.json()["result"]
    assert prompt["exact"], [each for each in prompt["sections"] if each["gap"]]
    return body_text(prompt["body"]).encode()


async def stored_steps(look: StoreLook, group: int) -> list[tuple[int, int]]:
    """The numbers of turn and step of all prompts of a group that are stored."""
    rows = await look.rows(
        "SELECT turn_id, position FROM prompts "
        f"WHERE chat_key = '{_key(group)}' ORDER BY turn_id, position"
    )
    return [(int(turn), int(step)) for turn, step in rows]


async def check_replay(bot: WholeBot, group: int, turn_id: int, expected: str) -> None:
    """Repeat a turn without effects. The repetition must send ``expected``, and the group must get
    nothing."""
    before = bot.said(group)
    answer = await bot.web.post("/operator/turns/replay", json={"turn_id": turn_id})
    assert answer.status_code == 202, answer.text
    asked = {"job_id": answer.json()["job_id"]}
    with anyio.fail_after(LONG_S):
        while True:
            job = (await bot.web.get("/operator/jobs/one", params=asked)).json()["result"]
            if job["state"] != "running":
                break
            await anyio.sleep(0.1)
    assert job["state"] == "done", job
    assert job["result"]["sends"] == [expected], job
    assert bot.said(group) == before


def _turns_of(group: int) -> str:
    return f"SELECT id FROM turns WHERE chat_key = '{_key(group)}' ORDER BY id"


def _key(group: int) -> str:
    return f"onebot_v11-group_{group}"
