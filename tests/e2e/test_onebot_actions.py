"""``ctx.send.command`` of a MaiBot plugin calls actions of a OneBot account."""

import json
from pathlib import Path
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
    @Command("act", pattern=r"^/act (?P<what>.+)$")
    async def act(self, stream_id, matched_groups, **kwargs):
        asked = json.loads(matched_groups["what"])
        done = await self.ctx.send.command(asked, stream_id)
        await self.ctx.send.text(f"done: {done}", stream_id)
        return True, None, True
def create_plugin():
    return Acts()
"""
ME, MEI = 10001, 10002
ASKED: list[tuple[Any, str, dict[str, Any]]] = [
    ({"name": "SEND_POKE", "args": {"qq_id": "10002"}}, "send_poke", {"user_id": MEI}),
    (
        {"name": "GROUP_BAN", "args": {"qq_id": MEI, "duration": "60"}},
        "set_group_ban",
        {"user_id": MEI, "duration": 60},
    ),
    (
        {"name": "GROUP_WHOLE_BAN", "args": {"enable": True}},
        "set_group_whole_ban",
        {"enable": True},
    ),
    ({"name": "group_kick", "args": {"user_id": "10002"}}, "set_group_kick", {"user_id": MEI}),
    (
        json.dumps({"name": "set_group_card", "args": {"user_id": MEI, "card": "Mei"}}),
        "set_group_card",
        {"user_id": MEI, "card": "Mei"},
    ),
    (
        {"name": "send_like", "args": {"user_id": "10002", "times": "3"}},
        "send_like",
        {"user_id": MEI, "times": 3},
    ),
]


async def acts(whole: WholeBot, group: int, asked: Any) -> str:
    """Run the plugin's command in the group. Returns its answer."""
    before = len(whole.said(group))
    await whole.peer.say_in_group(group, ME, f"/act {json.dumps(asked)}")
    return (await whole.answers(group, before + 1))[before]


async def test_each_action_reaches_the_account_of_the_chat(tmp_path: Path) -> None:
    rights = ["send.text", "send.command"]
    plant(tmp_path / "data", SOURCE, plugin_id="ann.acts", capabilities=rights)
    async with whole_bot(tmp_path) as whole:
        group, peer = whole.group(), whole.peer

        def called(action: str) -> list[dict[str, Any]]:
            return [each.params for each in peer.calls if each.action == action]

        for asked, action, params in ASKED:
            elsewhere = asked  # the action uses the group of the chat and ignores this argument
            if isinstance(asked, dict):
                elsewhere = {**asked, "args": {**asked["args"], "group_id": 1}}
            assert await acts(whole, group, elsewhere) == "done: True", action
            assert called(action) == [{**params, "group_id": group}]

        said = await peer.say_in_group(group, MEI, "spam")
        deleting = {"name": "delete_msg", "args": {"message_id": str(said)}}
        assert await acts(whole, group, deleting) == "done: True"
        assert await acts(whole, group, deleting) == "done: False", "the message was deleted before"
        assert [each["message_id"] for each in called("delete_msg")] == [said] * 2

        peer.answer("set_group_ban", Failed(102, "no admin"))
        assert await acts(whole, group, ASKED[1][0]) == "done: False"
        for unknown in ({"name": "set_group_leave"}, "no such action", {"args": {}}, "{"):
            assert await acts(whole, group, unknown) == "done: False", unknown
        assert called("set_group_leave") == []
