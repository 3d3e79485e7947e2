"""All ten plugins of this folder run in one bot. `test_wild.py` has the conversations with each."""

from pathlib import Path

import pytest

from tests.compat.maibot.wild.test_wild import ANY_PORT, NAMES, bot_with, put, sign, tell

pytestmark = pytest.mark.long


async def test_all_ten_plugins_run_in_one_bot(tmp_path: Path) -> None:
    put(tmp_path, "line_bridge", ANY_PORT)
    async with bot_with(tmp_path, *NAMES) as whole:
        for line in (
            "碗碗厨房开张，共 4 道菜",
            "签到送花] 已加载",
            "夜猫子管家已加载",
            "line bridge listens on port",
            "NapCat",
            "口袋账本已加载",
            "聊天摘要已加载",
            "衣橱已加载：杭州，2 件衣服",
        ):
            await whole.logged(line, 20)
        await whole.others_are_served()
        group = whole.group(tell("lookup_hexagram(words='你好')"))
        [told] = await whole.ask(group)
        assert f"是{sign('你好')}卦" in told
