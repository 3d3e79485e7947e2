"""Scenarios with servers and several boxes."""

import re
from urllib.parse import urlsplit

import httpx

from tests.e2e.scenarios.scenario import CODE, Subject
from tests.e2e.scenarios.scene import Scene

boxes = Subject("boxes")


@boxes.scenario(25, modes=CODE)
async def a_page_with_a_clock(scene: Scene) -> None:
    async with scene.part(25, could=1):
        await scene.ask("Lin", "Make a web page with a running clock and give me the link.")
        page = await _page(scene)
        assert "<script" in page, f"the page has no script: {page[:300]!r}"
        assert "Date" in page, "the page shows no time"


@boxes.scenario(26, modes=CODE)
async def a_game_that_is_changed(scene: Scene) -> None:
    async with scene.part(26, could=2, why="two messages"):
        await scene.ask("Lin", "Make a snake game as a web page and give me the link.")
        first = await _page(scene)
        assert "<script" in first, f"the page has no script: {first[:300]!r}"
        await scene.ask("Lin", "Cool! Make it half as fast, please.")
        second = await _page(scene)
        assert first != second, "the page has not changed"


@boxes.scenario(27, modes=CODE)
async def two_named_boxes(scene: Scene) -> None:
    async with scene.part(27, could=1):
        await scene.ask(
            "Lin",
            "Make two sandboxes, one called left with plain Python and one called right with numpy "
            "and Pillow. Write hello into a file in left, copy it to right, and tell me both "
            "Python versions, the numpy version, and what the copy says.",
        )
        scene.says("hello", r"3\.\d+", "numpy|NumPy")
        rows = scene.rows("SELECT code FROM runs WHERE chat_key = ?")
        assert any("transfer(" in str(code) for (code,) in rows), "nothing was transferred"


async def _page(scene: Scene) -> str:
    """The page whose address people got last, as their browser gets it."""
    found = re.findall(r"https?://[^\s)>\]\"'*`]+", scene.told)
    assert found, f"there is no link: {scene.told!r}"
    parts = urlsplit(found[-1])
    async with httpx.AsyncClient(trust_env=False, timeout=30, follow_redirects=True) as client:
        address = f"{scene.bot.address}{parts.path or '/'}"
        answer = await client.get(address, headers={"Host": parts.netloc})
    assert answer.status_code == 200, f"{found[-1]}: {answer.status_code}"
    return answer.text
