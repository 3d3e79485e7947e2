"""Several people ask at once in an OneBot group. Each request has the rights of its own author."""

import re
import sqlite3
from pathlib import Path

import anyio

from tests.e2e.bot_process import running_bot
from tests.e2e.whole_bot import TOKEN, fence, model_settings, until
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.scripted_model import Asked, ScriptedModelServer

OPERATOR, MEMBER, GROUP = 99999, 10001, 30003
PLUGIN = '''
from nekro_agent.core.config import config
from nekro_core.api.plugin import NekroPlugin, SandboxMethodType
from nekro_core.api.schemas import AgentCtx

plugin = NekroPlugin(name="Door", module_name="door", author="ann")


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "who_asks", "")
async def who_asks(_ctx: AgentCtx, wish: str) -> str:
    """Say who asks for it."""
    role = "operator" if _ctx.from_user_id in config.SUPER_USERS else "member"
    await _ctx.send_text(f"{wish}: {_ctx.from_user_id}, {role}")
    return role
'''
_ASKED = re.compile(r" NEW(?: [a-z ]+)?\n> (?:@you ?)?(.*)")


def reply(asked: Asked) -> str:
    """The reply of a model that fulfils every request in a message marked NEW."""
    wishes = _ASKED.findall(asked.last_user_text)
    return fence(
        "\n".join(f"who_asks({wish!r})\nset_timer({wish!r}, in_minutes=500)" for wish in wishes)
    )


async def test_an_operators_message_gives_no_rights_to_others(tmp_path: Path) -> None:
    plugins = tmp_path / "data" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "door.py").write_text(PLUGIN)
    async with (
        ScriptedModelServer(reply) as model,
        running_bot(
            tmp_path,
            **model_settings(model)
            | {
                "NEKRO_TRIGGER__DEBOUNCE_S": "0.9",
                "NEKRO_COMMAND__SUPER_USERS": f'["onebot_v11:{OPERATOR}"]',
            },
        ) as bot,
        OneBotPeer("20002", TOKEN, bot.onebot_url) as peer,
    ):
        await peer.wait_connected()

        def said() -> list[str]:
            return [call.text for call in peer.sends if "message" in call.params]

        await peer.say_in_group(GROUP, OPERATOR, "hello", at_me=True)
        await anyio.sleep(0.4)
        await peer.say_in_group(GROUP, MEMBER, "remove the others", at_me=True)
        await until(lambda: len(said()) >= 2)
        assert said() == [
            f"hello: {OPERATOR}, operator",
            f"remove the others: {MEMBER}, member",
        ]

        await until(lambda: len(_rows(bot.data, "SELECT id FROM turns WHERE ended > 0")) == 2)

        # Erasing a person deletes only the data of this person.
        await peer.say_in_group(GROUP, OPERATOR, "/erase me sure")
        await until(lambda: "a person was erased" in bot.log)
        left = _rows(bot.data, "SELECT text FROM timers")
        assert left == ["remove the others"]
        assert _rows(bot.data, "SELECT code FROM runs WHERE code LIKE '%hello%'") == []
        assert len(_rows(bot.data, "SELECT code FROM runs WHERE code LIKE '%remove the%'")) == 1
        assert _rows(bot.data, f"SELECT user_id FROM turns WHERE user_id = '{MEMBER}'") == ["10001"]


def _rows(data: Path, query: str) -> list[str]:
    connection = sqlite3.connect(f"file:{data / 'nekro.sqlite3'}?mode=ro", uri=True)
    try:
        return [found for (found,) in connection.execute(query)]
    finally:
        connection.close()
