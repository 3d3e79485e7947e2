"""Gives the bot of `tests.console.serve` accounts, requests and a message to several chats, with
fake OneBot programs that connect to it over loopback."""

import anyio

from nekro_core.app.app import App
from nekro_core.operator.platforms import HiddenSettings
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from tests.peers.onebot_v11 import OneBotPeer

FILLER = Actor(name="filler", role=AccessRole.OWNER, origin=RequestOrigin.SYSTEM)
HTML = "<img src=x onerror=alert(1)>"
PEOPLE = 30
CONFIGURATION = {"onebot_v11_ws_urls": '["ws://127.0.0.1:1"]'}
"""An account that the environment defines. No server answers at its address."""
TOKEN = "a token for tests"


async def fill_platforms(app: App, port: int) -> None:
    """Add the data, and keep the fake programs connected until this task is cancelled."""
    operations = app.operations
    platforms = operations.platforms
    await platforms.enable(FILLER, platform="onebot_v11")
    for settings in (
        {"account": "20002", "access_token": TOKEN},
        {"account": "20004", "access_token": "other"},
    ):
        await platforms.add_account(
            FILLER, platform="onebot_v11", settings=HiddenSettings(settings)
        )
    await platforms.pause_account(FILLER, platform="onebot_v11", account="20004")
    url = f"ws://127.0.0.1:{port}/onebot/v11/ws"
    async with OneBotPeer("20002", TOKEN, url, has_history=False) as peer:
        await peer.wait_connected()
        for number in range(PEOPLE):
            await peer.say_in_private(10_000 + number, f"hello {number}")
        await peer.say_in_group(30_003, 10_001, HTML)
        asked = {"post_type": "request", "self_id": 20002, "user_id": 10_001}
        for number, event in enumerate(
            (
                {"request_type": "friend", "flag": "f1", "comment": HTML},
                {"request_type": "group", "sub_type": "add", "group_id": 30003, "flag": "g1"},
                {"request_type": "group", "sub_type": "invite", "group_id": 30004, "flag": "g2"},
            )
        ):
            await peer.emit({**asked, "time": 1_700_000_000 + number, **event})
        await operations.requests.ban(FILLER, place="onebot_v11", user_id="10029")
        with anyio.fail_after(30):
            while len(chats := (await operations.chats.newest(FILLER)).chats) < PEOPLE:
                await anyio.sleep(0.05)
        keys = tuple(each.chat_key for each in chats[:5])
        await operations.broadcast.start(FILLER, text=f"Hello to all. {HTML}", chats=keys)
        await anyio.sleep_forever()
