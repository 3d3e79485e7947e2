"""The Satori process works with a plain WebSocket client and a plain HTTP client."""

import json

import httpx
import pytest
from websockets.asyncio.client import connect

from tests.peers.satori import PLATFORM, SELF, TOKEN, SatoriPeer, missing

pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(missing()), reason=missing())]


async def test_events_arrive_by_websocket_and_calls_work_by_http() -> None:
    async with SatoriPeer() as peer:
        address = f"127.0.0.1:{peer.port}/v1"
        async with connect(f"ws://{address}/events", proxy=None) as wire:
            await wire.send(json.dumps({"op": 3, "body": {"token": TOKEN}}))
            ready = json.loads(await wire.recv())
            assert ready["body"]["logins"][0]["user"]["id"] == SELF
            await peer.say("g1", "ann", "1 < 2")
            event = json.loads(await wire.recv())["body"]
            assert event["type"] == "message-created"
            assert event["message"]["content"] == "1 &lt; 2"
            assert event["channel"] == {"id": "g1", "type": 0, "name": "# g1"}
        headers = {
            "Authorization": f"Bearer {TOKEN}",
            "Satori-Platform": PLATFORM,
            "Satori-User-ID": SELF,
        }
        async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=60) as client:
            body = {"channel_id": "g1", "content": "hello"}
            answer = await client.post(f"http://{address}/message.create", json=body)
            assert answer.json()[0]["id"] == "m1"
        (seen,) = await peer.sent(1)
        assert seen.content == "hello"
