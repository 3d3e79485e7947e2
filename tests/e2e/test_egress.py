"""The operator allows boxes to reach a package index, and the model installs a package from it.
After the operator has forbidden the index in a file, the installation fails."""

from pathlib import Path

import anyio
import httpx
import pytest

from tests.e2e.bot_process import BotProcess, running_bot
from tests.peers.scripted_model import ScriptedModelServer
from tests.sandbox.egress.package_index import index

pytestmark = [pytest.mark.jail, pytest.mark.long]

INSTALL = """```python
print(workbench.shell("pip install --quiet --retries 0 greeting")["exit_code"])
import greeting
send_channel_message(greeting.HELLO)
```"""
TRY = """```python
import socket
import time

for _ in range(300):
    try:
        socket.create_connection(("127.0.0.1", 3128)).close()
    except ConnectionRefusedError:
        send_channel_message("no longer")
        break
    time.sleep(0.1)
```"""


async def say(bot: BotProcess, text: str, expected: str) -> None:
    """Write to the bot in private and wait until the chat has the expected text."""
    headers = {"Authorization": f"Bearer {bot.token}"}
    room = "/api/v1/rooms/private_lin/messages"
    async with httpx.AsyncClient(
        base_url=bot.address, headers=headers, trust_env=False, timeout=60
    ) as script:
        posted = await script.post(room, json={"speaker": "lin", "text": text})
        assert posted.is_success, posted.text
        with anyio.fail_after(90):
            while expected not in (await script.get(room)).text:
                await anyio.sleep(0.05)


async def test_boxes_reach_only_what_the_operator_allows(tmp_path: Path) -> None:
    with index() as (port, asked):
        async with ScriptedModelServer([INSTALL, TRY]) as model:
            settings = {
                "NEKRO_LLM__BASE_URL": model.base_url,
                "NEKRO_LLM__MODEL": "scripted",
                "NEKRO_TRIGGER__DEBOUNCE_S": "0.05",
                "NEKRO_SANDBOX__EGRESS_PRIVATE": f'["127.0.0.1:{port}"]',
                "NEKRO_SANDBOX__PIP_INDEX": f"http://127.0.0.1:{port}/simple/",
            }
            async with running_bot(tmp_path, **settings) as bot:
                await say(bot, "install something", "hello from a wheel")
                count = len(asked)
                (bot.data / "egress.toml").write_text('["web-private_lin"]\nallow = []\n')
                await say(bot, "and again", "no longer")
                assert len(asked) == count
