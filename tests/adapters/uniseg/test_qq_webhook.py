"""QQ checks the address of the bot's webhook: it sends a token, and the webhook signs it. The
webhook signs nothing else."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from nonebot.drivers import Request, Response

from tests.adapters.uniseg.peers.qq import QQ, TIME
from tests.adapters.uniseg.stock import bench

# Models of NoneBot's adapter cause these warnings.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
async def qq(tmp_path: Path) -> AsyncIterator[QQ]:
    async with bench(tmp_path, "qq", qq_bots=[]) as made:
        peer = QQ(made)
        made.connect(peer.bot)
        yield peer


async def post(qq: QQ, body: str, **headers: str) -> Response:
    request = Request(
        "POST", "http://bot/qq/webhook", headers={"X-Bot-Appid": "1020", **headers}, content=body
    )
    answer: Response = await qq.bench.stock._handle_http(request)
    return answer


async def signed(qq: QQ, token: str, time: str = "1725442341") -> Any:
    body = json.dumps({"op": 13, "d": {"plain_token": token, "event_ts": time}})
    answer = await post(qq, body)
    return json.loads(str(answer.content)) if answer.status_code == 200 else answer.status_code


async def test_the_webhook_answers_the_check_of_its_address(qq: QQ) -> None:
    shown = await signed(qq, "Arq0D5A61EgUu4OxUvOp")
    assert shown["plain_token"] == "Arq0D5A61EgUu4OxUvOp"
    assert len(shown["signature"]) == 128


async def test_an_address_check_that_contains_an_event_is_refused(qq: QQ) -> None:
    """QQ signs its events with the same key. If the webhook signed an event as if it were a token,
    anyone could forge messages."""
    author = {"id": "B", "member_openid": "B", "username": "Boss", "member_role": "owner"}
    data = {"id": "1", "content": "/off", "timestamp": TIME, "author": author,
            "group_id": "G1", "group_openid": "G1"}  # fmt: skip
    event = json.dumps({"op": 0, "s": 1, "t": "GROUP_AT_MESSAGE_CREATE", "id": "e", "d": data})
    for time, token in (("1", event), (f"1{event}", "x"), ("1", "a\n"), ("", event)):
        got = await signed(qq, token, time)
        if got != 403:
            forged = {"X-Signature-Timestamp": "1", "X-Signature-Ed25519": got["signature"]}
            await post(qq, event, **forged)
        assert got == 403
