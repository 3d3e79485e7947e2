"""A MaiBot plugin reads a OneBot message: the mention in a command, and the names."""

from pathlib import Path

import pytest

from tests.compat.maibot.plant import plant
from tests.e2e.whole_bot import whole_bot
from tests.peers.onebot_v11.messages import at, text

pytestmark = pytest.mark.long

SOURCE = """
from maibot_sdk import Command, MaiBotPlugin
class Hugger(MaiBotPlugin):
    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass
    @Command("hug", pattern=r"^/hug\\s+@(?P<who>\\S+.*)$")
    async def hug(self, stream_id, matched_groups, message, **kwargs):
        info = message["message_info"]
        by = info["user_info"]["user_cardname"]
        config = info["additional_config"]
        place = config["napcat_message_type"], config["platform_io_target_group_id"]
        where = info["group_info"]["group_name"]
        stream = await self.ctx.chat.get_stream_by_group_id(info["group_info"]["group_id"])
        assert stream["group_name"] == where
        words = f"{by} hugs {matched_groups['who']} in {where} {' '.join(place)}"
        await self.ctx.send.text(words, stream_id)
        return True, None, True
def create_plugin():
    return Hugger()
"""


async def test_a_command_reads_the_mention_and_the_name_of_the_group(tmp_path: Path) -> None:
    rights = ["send.text", "chat.get_stream_by_group_id"]
    plant(tmp_path / "data", SOURCE, plugin_id="ann.hugger", capabilities=rights)
    async with whole_bot(tmp_path) as whole:
        group = whole.group()
        await whole.peer.say_in_group(group, 10001, [text("/hug "), at(12345)])
        (said,) = await whole.answers(group, 1)
        assert said == f"name of 10001 hugs 12345 in group {group} group {group}"
        asked = [each for each in whole.peer.calls if each.action == "get_group_info"]
        await whole.peer.say_in_group(group, 10001, [text("/hug "), at(12345)])
        await whole.answers(group, 2)
        again = [each for each in whole.peer.calls if each.action == "get_group_info"]
        assert len(asked) == len(again) == 1, "only the adapter asks, and once"
