"""The plugin of docs/commands.md serves commands over OneBot, a page and a webhook in a running
bot."""

import re
import signal
from pathlib import Path

import httpx
import pytest

from nekro_core.plugins.host.switches import read_list
from tests.e2e.whole_bot import LONG_S, WELL, WholeBot, whole_bot

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"


def addresses(whole: WholeBot) -> list[str]:
    """The addresses of the plugin's page and webhook that the operator sees."""
    (listed,) = [each for each in read_list(whole.bot.data) if each.key == "you.library"]
    return listed.addresses


async def test_the_documented_plugin_serves_commands_page_and_webhook(tmp_path: Path) -> None:
    (code,) = re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    plugins = tmp_path / "data" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "library.py").write_text(code.replace("group_30003", "group_40001"), "utf-8")
    operator = '["onebot_v11:10001"]'
    async with whole_bot(tmp_path, NEKRO_COMMAND__ADVANCED_USERS=operator) as whole:
        token = {"Authorization": f"Bearer {whole.bot.token}"}
        async with httpx.AsyncClient(
            base_url=whole.bot.address, timeout=LONG_S, trust_env=False
        ) as client:
            page, hook = addresses(whole)
            books = f"{page}books"
            assert (await client.get(books)).status_code == 401
            assert (await client.post(books, json={"title": "Genji"})).status_code == 401
            added = await client.post(books, json={"title": "Genji"}, headers=token)
            assert added.json() == {"title": "Genji", "copies": 1}

            group = whole.group()
            say = whole.peer.say_in_group
            await say(group, 10002, "/lend days:7 Genji")
            (told,) = await whole.answers(group, 1)
            assert told.endswith("has 'Genji' for 7 days.")
            await say(group, 10002, "/shelf clear")
            assert (await whole.answers(group, 2))[1] == "You may not use /shelf clear."
            await say(group, 10001, "/shelf clear")
            assert (await whole.answers(group, 3))[2].startswith("Throw 1 books away?")
            await say(group, 10002, "yes", at_me=True)
            assert (await whole.answers(group, 4))[3] == WELL, (
                "the agent answers messages that are not commands"
            )
            await say(group, 10001, "2")
            assert (await whole.answers(group, 5))[4] == "They stay."

            thanks = await client.post(hook, json={"title": "Genji"})
            assert thanks.json() == {"thanks": True}
            assert (await whole.answers(group, 6))[5] == "'Genji' is back."
            wrong = await client.post(f"{hook[:-1]}", json={"title": "Genji"})
            assert wrong.status_code == 404
            assert hook.rpartition("/")[2] not in whole.bot.log

            assert len(whole.prompts(group)) == 1, "a command must not start a turn"
        await whole.bot.stop(signal.SIGKILL)
        await whole.bot.start()
        assert addresses(whole)[1] == hook, "the address stays the same after a restart"
