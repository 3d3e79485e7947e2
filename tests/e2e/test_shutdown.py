"""The process ends properly, and its log shows no secret."""

import json
import signal
from pathlib import Path

import httpx
import pytest

from tests.e2e.bot_process import running_bot
from tests.peers.scripted_model import Answer, ScriptedModelServer

pytestmark = pytest.mark.long

END_S = 60.0
"""The bot usually ends within 3 s. A busy machine may take longer."""


async def test_sigterm_ends_the_bot_properly_during_a_stream_and_a_turn(
    tmp_path: Path,
) -> None:
    thinking = Answer(chunks=['```python\nsend_channel_message("one")\n', 60.0, "```"])
    async with ScriptedModelServer([thinking]) as model:
        settings = {
            "NEKRO_LLM__BASE_URL": model.base_url,
            "NEKRO_LLM__MODEL": "scripted",
            "NEKRO_TRIGGER__DEBOUNCE_S": "0.05",
        }
        async with (
            running_bot(tmp_path, **settings) as bot,
            httpx.AsyncClient(
                base_url=f"{bot.address}/api/v1/rooms/private_lin/",
                headers={"Authorization": f"Bearer {bot.token}"},
                trust_env=False,
                timeout=60,
            ) as client,
            client.stream("GET", "events", timeout=60) as stream,
        ):
            lines = stream.aiter_lines()
            await client.post("messages", json={"speaker": "lin", "text": "hello"})
            async for line in lines:
                if line.startswith("data: ") and '"author": "bot"' in line:
                    break
            await bot.stop(signal.SIGTERM, within=END_S)
            async for line in lines:  # the stream ends normally
                assert not line.startswith("event: error")
            assert bot.process.returncode == 0
    assert not (bot.data / "running.json").exists()
    assert not (bot.data / "nekro.sqlite3-wal").exists(), (
        "the bot must close the database, which removes this file"
    )
    assert "Traceback" not in bot.log


SECRETS = {
    "NEKRO_LLM__API_KEY": "sk-of-the-model-0123456789",
    "NEKRO_SPEECH": json.dumps({"api_key": "sk-of-the-voice-0123456789"}),
    "ONEBOT_ACCESS_TOKEN": "token-of-onebot-0123456789",
    "MATRIX_BOTS": json.dumps([{"access_token": "token-of-matrix-0123456789"}]),
}


@pytest.mark.parametrize("kept_in", ["environment", ".env"])
async def test_a_debug_log_shows_no_secret_and_ctrl_c_exits_with_130(
    tmp_path: Path, kept_in: str
) -> None:
    settings = {"NEKRO_LLM__BASE_URL": "http://127.0.0.1:9/v1", "NEKRO_LLM__MODEL": "m"}
    if kept_in == ".env":
        lines = [f"{name}={value}\n" for name, value in SECRETS.items()]
        (tmp_path / ".env").write_text("".join(lines))
    else:
        settings |= SECRETS
    async with running_bot(tmp_path, **settings) as bot:
        made = [path.read_text().strip() for path in (bot.data / "secrets").iterdir()]
        await bot.stop(signal.SIGINT, within=END_S)
        assert bot.process.returncode == 130
    assert "[DEBUG]" in bot.log
    given = ["sk-of-the-model", "sk-of-the-voice", "token-of-onebot", "token-of-matrix"]
    assert [secret for secret in [*given, *made] if secret in bot.log] == []
