"""A bot's calls work on the fake Bot API, both alone and with telegram-test-api behind it."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.peers.telegram import TelegramPeer
from tests.peers.telegram.relay import missing, telegram_test_api


@pytest.fixture(
    params=[
        "alone",
        pytest.param(
            "telegram-test-api",
            marks=[
                pytest.mark.long,
                pytest.mark.skipif(bool(missing()), reason=missing() or "it is here"),
            ],
        ),
    ]
)
async def peer(request: pytest.FixtureRequest) -> AsyncIterator[TelegramPeer]:
    if request.param == "alone":
        async with TelegramPeer() as peer:
            yield peer
    else:
        async with telegram_test_api() as address, TelegramPeer(relay=address) as peer:
            yield peer


async def test_text_is_delivered_in_both_directions(peer: TelegramPeer) -> None:
    async with httpx.AsyncClient(
        base_url=f"{peer.address}bot{peer.token}/", trust_env=False
    ) as bot:
        message_id = await peer.say(-1001, 42, f"@{peer.username} hello")
        updates = (await bot.post("getUpdates", json={"timeout": 5})).json()["result"]
        (heard,) = [update["message"] for update in updates]
        assert heard["text"] == f"@{peer.username} hello"
        assert heard["entities"] == [{"type": "mention", "offset": 0, "length": 15}]
        said = (await bot.post("sendMessage", json={"chat_id": -1001, "text": "hi"})).json()
        assert said["result"]["text"] == "hi"
        (seen,) = await peer.sent(1)
        assert seen.text == "hi"
        assert message_id == 1


async def test_updates_are_stored_until_they_are_confirmed() -> None:
    async with (
        TelegramPeer() as peer,
        httpx.AsyncClient(
            base_url=f"{peer.address}bot{peer.token}/", trust_env=False, timeout=60
        ) as bot,
    ):
        for number in range(3):
            await peer.say(-1001, 42, f"line {number}")
        first = (await bot.post("getUpdates", json={})).json()["result"]
        again = (await bot.post("getUpdates", json={})).json()["result"]
        assert first == again
        offset = first[1]["update_id"]
        rest = (await bot.post("getUpdates", json={"offset": offset})).json()["result"]
        assert [update["message"]["text"] for update in rest] == ["line 1", "line 2"]
