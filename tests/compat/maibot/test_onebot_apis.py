"""MaiBot plugins act on QQ through `adapter.napcat.*`. The tests check which calls reach the OneBot
implementation and which values the plugin gets back."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.compat.maibot.plant import plant
from tests.e2e.whole_bot import WholeBot, whole_bot
from tests.peers.onebot_v11.answers import Failed

pytestmark = pytest.mark.long

SOURCE = """
import json
from maibot_sdk import Command, MaiBotPlugin
class Acts(MaiBotPlugin):
    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass
    @Command("act", pattern=r"^/act (?P<name>\\\\S+) (?P<what>.+)$")
    async def act(self, stream_id, matched_groups, **kwargs):
        given = json.loads(matched_groups["what"])
        done = await self.ctx.api.call(matched_groups["name"], version="1", **given)
        await self.ctx.send.text(json.dumps(done, ensure_ascii=False), stream_id)
        return True, None, True
    @Command("upload", pattern=r"^/upload$")
    async def upload(self, stream_id, group_id, **kwargs):
        path = self.ctx.paths.data_dir / "note.txt"
        path.write_text("hello")
        for file in (str(path), "/etc/hostname"):
            await self.ctx.api.call(
                "adapter.napcat.file.upload_group_file",
                params={"group_id": group_id, "file": file, "name": "note.txt"},
            )
        await self.ctx.send.text("uploaded", stream_id)
        return True, None, True
def create_plugin():
    return Acts()
"""
ME, MEI = 10001, 10002
NAMES = "adapter.napcat."


@pytest.fixture(scope="module")
async def whole(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WholeBot]:
    folder = tmp_path_factory.mktemp("apis")
    rights = ["send.text", "api.call"]
    needs = [{"type": "plugin", "id": "maibot-team.napcat-adapter", "version_spec": ">=1.0.1"}]
    source = SOURCE.replace("\\\\", "\\")
    plant(folder / "data", source, plugin_id="ann.acts", capabilities=rights, dependencies=needs)
    async with whole_bot(folder) as whole:
        yield whole


async def acts(whole: WholeBot, group: int, name: str, **given: Any) -> Any:
    """Let the plugin call an API in the group. Returns the value that the plugin got."""
    before = len(whole.said(group))
    await whole.peer.say_in_group(group, ME, f"/act {name} {json.dumps(given)}")
    return json.loads((await whole.answers(group, before + 1))[before])


def last(whole: WholeBot, action: str) -> dict[str, Any]:
    return [each.params for each in whole.peer.calls if each.action == action][-1]


@pytest.mark.parametrize(
    ("name", "given", "action", "params"),
    [
        (
            "group.set_group_ban",
            {"user_id": str(MEI), "duration": 60},
            "set_group_ban",
            {"user_id": MEI, "duration": 60},
        ),
        ("group.set_group_kick", {"user_id": MEI}, "set_group_kick", {"user_id": MEI}),
        (
            "group.set_group_card",
            {"params": {"user_id": MEI, "card": "梅"}},
            "set_group_card",
            {"user_id": MEI, "card": "梅"},
        ),
        (
            "group.set_group_special_title",
            {"user_id": MEI, "special_title": "茶"},
            "set_group_special_title",
            {"user_id": MEI, "special_title": "茶"},
        ),
        ("message.send_poke", {"qq_id": str(MEI)}, "send_poke", {"user_id": MEI}),
        (
            "group.send_group_notice",
            {"params": {"content": "tea at five"}},
            "_send_group_notice",
            {"content": "tea at five"},
        ),
        (
            "action.call",
            {"action_name": "set_group_whole_ban", "params": {"enable": True}},
            "set_group_whole_ban",
            {"enable": True},
        ),
    ],
)
async def test_an_action_reaches_the_account_and_its_result_reaches_the_plugin(
    whole: WholeBot, name: str, given: dict[str, Any], action: str, params: dict[str, Any]
) -> None:
    group = whole.group()
    full = {**given, "group_id": str(group)}
    if "params" in given:
        full = {**given, "params": {**given["params"], "group_id": group}}
    told = await acts(whole, group, NAMES + name, **full)
    assert last(whole, action) == {**params, "group_id": group}
    if action in ("set_group_special_title", "_send_group_notice"):
        assert told["status"] == "failed"  # the peer answers that it has no such action
        assert told["retcode"] == 1404
    else:
        assert (told["status"], told["retcode"]) == ("ok", 0)


@pytest.mark.parametrize(
    ("name", "given", "action", "params"),
    [
        ("message.delete_msg", {"message_id": "5"}, "delete_msg", {"message_id": 5}),
        ("group.set_essence_msg", {"message_id": 5}, "set_essence_msg", {"message_id": 5}),
        ("group.delete_essence_msg", {"message_id": 5}, "delete_essence_msg", {"message_id": 5}),
        (
            "account.send_like",
            {"user_id": str(MEI), "times": 3},
            "send_like",
            {"user_id": MEI, "times": 3},
        ),
        (
            "file.create_group_file_folder",
            {"group_id": "GROUP", "folder_name": "tea"},
            "create_group_file_folder",
            {"folder_name": "tea"},
        ),
        ("file.get_group_root_files", {"group_id": "GROUP"}, "get_group_root_files", {}),
    ],
)
async def test_recalls_essence_likes_and_group_files_reach_the_account(
    whole: WholeBot, name: str, given: dict[str, Any], action: str, params: dict[str, Any]
) -> None:
    group = whole.group()
    await whole.ask(group, "hello")
    full = {key: str(group) if value == "GROUP" else value for key, value in given.items()}
    await acts(whole, group, NAMES + name, **full)
    got = last(whole, action)
    assert {key: got[key] for key in params} == params
    if "group_id" in full:
        assert got["group_id"] == group


async def test_calls_that_ask_for_data_return_only_the_data_of_the_response(
    whole: WholeBot,
) -> None:
    group = whole.group()
    login = await acts(whole, group, NAMES + "system.get_login_info")
    assert login["user_id"] == 20002
    info = {"group_id": str(group), "user_id": str(ME)}
    member = await acts(whole, group, "adapter.snowluma.group.get_group_member_info", **info)
    assert member["user_id"] == ME
    assert last(whole, "get_group_member_info") == {
        "group_id": group,
        "user_id": ME,
        "no_cache": True,
    }
    full = f"maibot-team.napcat-adapter.{NAMES}group.get_group_member_list"
    members = await acts(whole, group, full, group_id=group)
    assert ME in [each["user_id"] for each in members]
    given = {"action_name": "get_group_info", "params": {"group_id": group}}
    assert (await acts(whole, group, NAMES + "action.call_data", **given))["group_id"] == group


async def test_a_refused_call_returns_a_value_of_the_type_that_its_caller_expects(
    whole: WholeBot,
) -> None:
    group = whole.group()
    whole.peer.answer("set_group_ban", Failed(102, "no admin"))
    ban = {"group_id": group, "user_id": MEI, "duration": 1}
    told = await acts(whole, group, NAMES + "group.set_group_ban", **ban)
    assert (told["status"], told["retcode"]) == ("failed", 102)
    whole.peer.answer("get_stranger_info", Failed(100, "nobody"))
    assert await acts(whole, group, NAMES + "account.get_stranger_info", user_id=1) is None
    whole.peer.answer("get_friend_list", Failed(100, "not now"))
    assert await acts(whole, group, NAMES + "account.get_friend_list") == []
    told = await acts(whole, group, NAMES + "group.no_such_word")
    assert told["success"] is False
    assert "there is no API" in told["error"]
    told = await acts(whole, group, NAMES + "action.call")
    assert "action_name is missing" in told["error"]


async def test_actions_in_another_chat_need_the_operators_permission(whole: WholeBot) -> None:
    group, other = whole.group(), whole.group()
    ban = {"group_id": other, "user_id": MEI, "duration": 1}
    told = await acts(whole, group, NAMES + "group.set_group_ban", **ban)
    assert "NEKRO_PLUGIN__MAY_SEND_ELSEWHERE" in told["error"]
    message = [{"type": "text", "data": {"text": "psst"}}]
    given = {"params": {"user_id": MEI, "message": message}}
    told = await acts(whole, group, NAMES + "message.send_private_msg", **given)
    assert "is another chat" in told["error"]
    assert (await acts(whole, group, NAMES + "group.get_group_info", group_id=other))["group_id"]
    assert [each for each in whole.peer.sends if each.params.get("user_id") == MEI] == []


async def test_a_file_of_the_plugin_is_sent_as_bytes_and_another_path_is_sent_unchanged(
    whole: WholeBot,
) -> None:
    group = whole.group()
    await whole.peer.say_in_group(group, ME, "/upload")
    await whole.peer.until(lambda: "uploaded" in whole.said(group), 60)
    sent = [each.params["file"] for each in whole.peer.calls if each.action == "upload_group_file"]
    assert base64.b64decode(sent[0].removeprefix("base64://")) == b"hello"
    assert sent[1:] == ["/etc/hostname"]


async def test_a_raw_message_of_a_plugin_is_sent(whole: WholeBot) -> None:
    group = whole.group()
    message = [{"type": "text", "data": {"text": "raw hello"}}]
    given = {"params": {"group_id": group, "message": message}}
    before = len(whole.said(group))
    asked = f"/act {NAMES}group.send_group_msg {json.dumps(given)}"
    await whole.peer.say_in_group(group, ME, asked)
    said = await whole.answers(group, before + 2)
    assert said[0] == "raw hello"
    assert json.loads(said[1])["data"]["message_id"]
