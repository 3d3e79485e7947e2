"""NoneBot's adapters compare tokens with ``!=``. In this bot, the comparison takes the same time
for all wrong tokens."""

import hmac
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from nonebot.drivers import Request

from tests.adapters.uniseg.stock import bench

TOKEN = "a token of this test"


def ask(offered: str) -> Request:
    headers = {"Authorization": f"Bearer {offered}"}
    return Request("POST", "http://bot/", headers=headers, content=b"")


async def onebot_v12(stock: Any, offered: str) -> bool:
    return stock._check_access_token(ask(offered)) is None


async def milky(stock: Any, offered: str) -> bool:
    return (await stock._handle_http(ask(offered))).status_code != 401


async def feishu(stock: Any, offered: str) -> bool:
    # A started adapter has got this over the network.
    stock.bot_apps["a"] = stock.feishu_config.feishu_bots[0]
    event = {"schema": "2.0", "header": {"token": offered}}
    request = Request("POST", "http://bot/feishu/a", content=json.dumps(event).encode())
    try:
        return bool((await stock._handle_http(request)).status_code != 403)
    except RuntimeError:  # The token was accepted, and then no bot was connected.
        return True


@pytest.mark.parametrize(
    ("platform", "settings", "lets_in"),
    [
        ("onebot_v12", {"onebot_v12_access_token": TOKEN}, onebot_v12),
        ("milky", {"milky_webhook": {"access_token": TOKEN}}, milky),
        (
            "feishu",
            {"feishu_bots": [{"app_id": "a", "app_secret": "s", "verification_token": TOKEN}]},
            feishu,
        ),
    ],
)
async def test_tokens_are_compared_in_constant_time(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    platform: str,
    settings: dict[str, Any],
    lets_in: Callable[[Any, str], Awaitable[bool]],
) -> None:
    compared: list[bytes] = []
    real = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.extend((one, other))
        return real(one, other)

    async with bench(tmp_path, platform, **settings) as made:
        monkeypatch.setattr(hmac, "compare_digest", compare)
        assert not await lets_in(made.stock, "a token of another")
        assert b"a token of another" in compared
        assert await lets_in(made.stock, TOKEN)
