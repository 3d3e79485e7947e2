"""The example plugin in docs/commands.md does what the page says."""

import re
from pathlib import Path

import httpx
import pytest

from nekro_core.plugins.authoring.web import PluginRouter, Webhook
from nekro_core.plugins.web.pages import PluginPages
from nekro_core.plugins.web.webhooks import Webhooks
from nekro_core.policy.permissions import CommandSettings
from tests.plugins.commands.talk import talk_with

DOCS = Path(__file__).parents[3] / "docs"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def printed(page: str) -> str:
    (code,) = _BLOCK.findall((DOCS / page).read_text("utf-8"))
    return str(code)


@pytest.mark.parametrize("language", ["zh", "ja"])
def test_the_example_plugin_is_the_same_in_every_language(language: str) -> None:
    assert printed(f"commands.{language}.md") == printed("commands.md")


async def test_the_example_plugin_does_what_the_page_says(tmp_path: Path) -> None:
    code = printed("commands.md")
    pages, hooks = PluginPages(), Webhooks(lambda: "secret")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "library.py").write_text(code, "utf-8")
    settings = CommandSettings(advanced_users=frozenset({"onebot_v11:10001"}))
    registrars = {PluginRouter: pages.put, Webhook: hooks.put}
    async with (
        talk_with(settings, tmp_path, registrars=registrars) as chat,
        httpx.AsyncClient(transport=httpx.ASGITransport(pages), base_url="http://bot") as browser,
        httpx.AsyncClient(transport=httpx.ASGITransport(hooks), base_url="http://bot") as client,
    ):
        (info,) = chat.plugins.plugins()
        assert info.problems == ()
        assert (
            await browser.post("/you.library/books", json={"title": "Genji"})
        ).status_code == 200
        assert (await browser.get("/you.library/books")).json() == [{"title": "Genji", "copies": 1}]
        assert await chat.say("/lend days:7 Genji") == ["Lin has 'Genji' for 7 days."]
        assert await chat.say("/借书 Hōjōki") == ["There is no 'Hōjōki' here."]
        assert await chat.say("/restore Genji") == ["Which colour?"]
        assert await chat.say("/restore Genji blue") == ["Nearly done."]
        assert await chat.say("/shelf clear") == ["Throw 1 books away?\n1. yes\n2. no"]
        assert await chat.say("1", replies=2) == ["One moment ...", "1 books are gone."]
        assert await chat.say("/shelf clear", by="10003") == ["You may not use /shelf clear."]
        address = info.addresses[1].removeprefix("/api/webhook")
        assert (await client.post(address, json={"title": "Genji"})).json() == {"thanks": True}
        assert chat.texts[-1] == "'Genji' is back."
        assert [text for _, text, _ in chat.world.journal.notes] == [
            "'Genji' is restored, in blue."
        ]
