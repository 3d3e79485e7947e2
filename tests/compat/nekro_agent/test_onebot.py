"""Plugins for nekro-agent in a whole bot: they call OneBot actions, handle messages with NoneBot's
matchers, and serve pages."""

import shutil
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.compat.nekro_agent.conftest import PLUGINS
from tests.e2e.whole_bot import WholeBot, fence, whole_bot

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
async def whole(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WholeBot]:
    folder = tmp_path_factory.mktemp("onebot")
    shutil.copytree(PLUGINS / "moderator", folder / "data" / "plugins" / "moderator")
    for name in ("dice_table.py", "admin_panel.py"):
        shutil.copy(PLUGINS / name, folder / "data" / "plugins")
    people = {"NEKRO_COMMAND__SUPER_USERS": '["onebot_v11:10001"]'}
    async with whole_bot(folder, **people) as whole:
        yield whole


async def test_a_plugin_can_call_an_action_of_onebot(whole: WholeBot) -> None:
    code = (
        "done = mute_user('onebot_v11-group_30003', '10002', 99999, 'be kind')\n"
        "send_channel_message(str(done))"
    )
    whole.model.replies["onebot_v11-group_30003"].append(fence(code))
    await whole.peer.say_in_group(30003, 10001, "mute them", at_me=True)
    ban = await whole.peer.next_call("set_group_ban", timeout=60)
    assert ban.params == {"group_id": 30003, "user_id": 10002, "duration": 600}
    assert await whole.answers(30003, 2) == [" be kind", "True"]


async def test_a_command_that_calls_command_guard_answers_only_super_users(whole: WholeBot) -> None:
    group = whole.group()
    await whole.peer.say_in_group(group, 10002, "/mod_state x")
    await whole.peer.say_in_group(group, 10001, "/mod-state y")
    assert await whole.answers(group) == [f"onebot_v11-group_{group} group y"]
    await whole.logged("messages of Nekro")


async def test_a_matcher_finds_the_chat_of_its_event(whole: WholeBot) -> None:
    group = whole.group()
    assert await whole.ask(group, "hello")
    await whole.peer.say_in_group(group, 10002, "/mod_where")
    chat = f"onebot_v11-group_{group} group group {group}"
    assert (await whole.answers(group, 2))[1] == f"name of 10002: {chat}"
    await whole.peer.say_in_private(10002, "/mod_where")
    await whole.peer.until(lambda: "onebot_v11-private_10002 private" in whole.peer.sends[-1].text)


async def test_a_message_that_a_blocking_matcher_answers_gets_no_second_answer(
    whole: WholeBot,
) -> None:
    group = whole.group()
    await whole.peer.say_in_group(group, 10002, "/r 3d6", at_me=True)
    await whole.peer.say_in_group(group, 10002, "/help", at_me=True)
    assert sorted(await whole.answers(group, 2)) == [
        "/r 3d6 rolls three dice",
        "10002 rolls 3d6: 11",
    ]
    await whole.ask(group, "are you there?")
    assert len(whole.said(group)) == 3
    assert len(whole.prompts(group)) == 1, "the model must be asked only about the other message"
    assert "/r 3d6" in whole.prompts(group)[0].last_user_text


async def test_only_the_operator_can_open_a_page_of_a_plugin(whole: WholeBot) -> None:
    path = "/plugins/keeper.admin_panel/api/me"
    async with httpx.AsyncClient(base_url=whole.bot.address, trust_env=False) as web:
        assert (await web.get(path)).status_code == 401
        web.headers["Authorization"] = "Bearer a token of another program"
        assert (await web.get(path)).status_code == 401
        web.headers["Authorization"] = f"Bearer {whole.bot.token}"
        assert (await web.get(path)).json() == {"id": 1, "name": "admin"}
