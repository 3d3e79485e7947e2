"""A bot that was killed again and again tells its operators about it once, in a chat and through a
webhook. After one more restart, the bot does not tell them a second time."""

from pathlib import Path

import anyio
import httpx
import pytest

from tests.e2e.bot_process import BotProcess
from tests.e2e.whole_bot import LONG_S, TOKEN, ModelByChat, model_settings, until
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.scripted_model import ScriptedModelServer
from tests.peers.webhook import WebhookReceiver

GROUP = 40001
SAID = "Alert: the bot has crashed 2 times within 15 minutes. The log says why."


@pytest.mark.long
@pytest.mark.slow
async def test_a_bot_that_crashes_again_and_again_tells_its_operators_once(tmp_path: Path) -> None:
    async with WebhookReceiver() as receiver, ScriptedModelServer(ModelByChat()) as model:
        settings = model_settings(model) | {
            "PORT": "0",
            "NEKRO_ALERTS__CHATS": f'["onebot_v11-group_{GROUP}"]',
            "NEKRO_ALERTS__WEBHOOK_URL": receiver.url,
            "NEKRO_ALERTS__PRIVATE_HOSTS": f'["{receiver.host}"]',
            "NEKRO_ALERTS__CRASHES": "2",
            "NEKRO_ALERTS__LOOK_S": "1",
        }
        bot = BotProcess(tmp_path / "data", settings)
        try:
            for _ in range(2):
                await bot.start()
                await bot.kill()
            assert receiver.told == []
            await bot.start()
            async with OneBotPeer("20002", TOKEN, bot.onebot_url) as peer:
                await until(lambda: SAID in [call.text for call in peer.sends])
                await until(lambda: [each["text"] for each in receiver.told] == [SAID])
                metrics = await read_metrics(bot)
                assert 'nekro_alerts{kind="crash"} 1.0' in metrics
                await bot.stop()
            await bot.start()
            async with OneBotPeer("20002", TOKEN, bot.onebot_url) as peer:
                await peer.wait_connected()
                with anyio.fail_after(LONG_S):  # until the bot has checked for alerts
                    while 'nekro_alerts{kind="crash"} 1.0' not in await read_metrics(bot):
                        await anyio.sleep(0.1)
                await anyio.sleep(2)  # it checks once a second
                assert [call.text for call in peer.sends] == []
            assert [each["text"] for each in receiver.told] == [SAID]
        finally:
            if bot.process is not None and bot.process.returncode is None:
                await bot.stop()


async def read_metrics(bot: BotProcess) -> str:
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(f"{bot.address}/metrics")).text
