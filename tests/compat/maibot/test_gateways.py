"""A plugin can connect a platform to the bot with a message gateway, also a platform that the bot
itself serves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.compat.maibot.gateway_place import GatewayRefused, choose_place
from nekro_core.testing import Bot
from tests.compat.maibot.plant import plant
from tests.e2e.whole_bot import whole_bot

SOURCE = """
from maibot_sdk import Command, MaiBotPlugin, MessageGateway, Tool
class Wire(MaiBotPlugin):
    async def on_load(self):
        self.out = []
        self.accepted = await self.ctx.gateway.update_state("wire", ready=True, {state})
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass
    @MessageGateway("{route_type}", name="wire", platform="{platform}", protocol="v1")
    async def send_out(self, message, route, **kwargs):
        self.out.append((message["processed_plain_text"], route))
        return {{"success": True, "external_message_id": f"t{{len(self.out)}}"}}
    async def heard(self, line, group="777", **more):
        return await self.ctx.gateway.route_message("wire", {{
            "message_id": f"w-{{line}}",
            "message_info": {{
                "user_info": {{"user_id": "5", "user_nickname": "Zoe"}},
                "group_info": {{"group_id": group, "group_name": "tea"}},
            }},
            "raw_message": [{{"type": "text", "data": line}}],
            "is_mentioned": True,
            **more,
        }})
    @Tool("seen", description="What a platform's tools see.", platforms="{platform}")
    async def seen(self, **kwargs):
        return await self.ctx.chat.open_session("{platform}", "group", group_id="777")
    @Command("again", pattern=r"^/again(?P<account>.*)$")
    async def again(self, matched_groups, stream_id, group_id, **kwargs):
        account = matched_groups["account"].strip()
        done = await self.ctx.gateway.update_state("wire", ready=True, account_id=account)
        heard = done and await self.heard("hello from the wire", group_id, is_notify=True)
        await self.ctx.send.text(f"accepted: {{done}} {{heard}}", stream_id)
        return True, None, True
def create_plugin():
    return Wire()
"""


def source(platform: str = "qq", state: str = "", route_type: str = "duplex") -> str:
    return SOURCE.format(platform=platform, state=state, route_type=route_type)


@asynccontextmanager
async def bot_with_wire(tmp_path: Path, **options: str) -> AsyncIterator[tuple[Bot, Any]]:
    plant(tmp_path, source(**options), plugin_id="ann.wire")
    async with Bot.open(tmp_path) as bot:
        (kind,) = bot.app.plugins._kinds
        yield bot, kind.plugins.find("ann.wire").instance


@pytest.mark.parametrize("state", ["account_id='31'", ""], ids=["an account", "no account"])
async def test_while_no_qq_account_is_connected_a_qq_gateway_has_separate_chats(
    tmp_path: Path, state: str
) -> None:
    async with bot_with_wire(tmp_path, state=state) as (bot, wire):
        assert wire.accepted is True
        bot.foresee(reply="hello Zoe")
        assert await wire.heard("hello bot") is True
        with anyio.fail_after(30):
            while not wire.out:
                await anyio.sleep(0.02)
        ((said, route),) = wire.out
        assert said == "hello Zoe"
        assert (route["platform"], route["account_id"]) == ("qq", "31" if state else "")
        chat = bot.chat("qq_gateway-group_777")
        session = await chat.call("seen")
        assert (session["stream_id"], session["platform"]) == (str(chat.key), "qq")


async def test_once_an_account_is_connected_messages_of_a_receiving_gateway_go_to_its_chats(
    tmp_path: Path,
) -> None:
    async with bot_with_wire(tmp_path, route_type="receive") as (bot, wire):
        assert await wire.heard("before", is_notify=True) is True
        assert await bot.chat("qq_gateway-group_777").record() == ["person: before"]
        await bot.app.host.instance_of("onebot_v11", "20002")
        assert await wire.heard("after", is_notify=True) is True
        assert await wire.heard("later", is_notify=True) is True
        chat = bot.chat("onebot_v11-group_777")
        assert await chat.record() == ["person: after", "person: later"]
        assert "qq_gateway" not in bot.app.adapters


async def test_a_notice_of_a_gateway_is_recorded_and_not_answered(tmp_path: Path) -> None:
    async with bot_with_wire(tmp_path, platform="telex") as (bot, wire):
        assert await wire.heard("somebody poked you", is_notify=True) is True
        chat = bot.chat("telex-group_777")
        assert await chat.record() == ["person: somebody poked you"]
        bot.foresee(reply="yes?")
        await wire.heard("bot?")
        with anyio.fail_after(30):
            while not wire.out:
                await anyio.sleep(0.02)
        assert [said for said, _ in wire.out] == ["yes?"]


async def test_a_private_message_that_a_plugin_adds_is_stored_in_the_chat_with_that_person(
    tmp_path: Path,
) -> None:
    async with bot_with_wire(tmp_path, platform="telex") as (bot, wire):
        info = {
            "user_info": {"user_id": "31", "user_nickname": "the bot"},
            "additional_config": {"platform_io_target_user_id": "5"},
        }
        assert await wire.heard("sent a voice", is_notify=True, message_info=info) is True
        assert await bot.chat("telex-private_5").record() == ["person: sent a voice"]


async def test_a_plugin_may_have_one_gateway_to_send_and_one_to_receive(tmp_path: Path) -> None:
    plant(tmp_path, source("telex", route_type="receive"), plugin_id="ann.ear")
    plant(tmp_path, source("telex", route_type="send"), plugin_id="ann.mouth")
    plant(tmp_path, source("telex", route_type="duplex"), plugin_id="ann.other")
    async with Bot.open(tmp_path) as bot:
        (kind,) = bot.app.plugins._kinds
        names = ("ann.ear", "ann.mouth", "ann.other")
        ear, mouth, other = (kind.plugins.find(name).instance for name in names)
        assert [each.accepted for each in (ear, mouth, other)] == [True, True, False]
        bot.foresee(reply="I heard you")
        assert await ear.heard("hello") is True
        with anyio.fail_after(30):
            while not mouth.out:
                await anyio.sleep(0.02)
        assert ear.out == []


def test_a_second_gateway_that_sends_to_a_platform_is_refused_with_the_remedy() -> None:
    with pytest.raises(GatewayRefused, match="switch off one of the two plugins"):
        choose_place(
            "telex",
            "",
            gateway="wire",
            only_receives=False,
            own_adapters=(),
            running=(),
            accounts={},
            serving="31",
        )


@pytest.mark.long
async def test_a_gateway_for_an_account_that_is_connected_to_the_bot_is_refused_with_the_remedy(
    tmp_path: Path,
) -> None:
    plant(tmp_path / "data", source(), plugin_id="ann.wire")
    async with whole_bot(tmp_path) as whole:
        group = whole.group()
        for account, told in (("20002", False), ("", False), ("31", True)):
            before = len(whole.said(group))
            await whole.peer.say_in_group(group, 10001, f"/again {account}")
            said = (await whole.answers(group, before + 1))[before]
            assert said.startswith(f"accepted: {told}"), account
        await whole.logged(
            "gateway wire of ann.wire: account 20002 of qq is connected to the bot itself"
        )
        await whole.logged("switch this plugin off, or disconnect the account's client")


@pytest.mark.long
async def test_messages_of_a_gateway_that_only_receives_go_to_the_chats_of_the_connected_account(
    tmp_path: Path,
) -> None:
    plant(tmp_path / "data", source(route_type="receive"), plugin_id="ann.wire")
    async with whole_bot(tmp_path) as whole:
        group = whole.group()
        await whole.peer.say_in_group(group, 10001, "/again")
        assert await whole.answers(group) == ["accepted: True True"]
        (told,) = whole.rows(
            "SELECT count(*) FROM messages WHERE chat_key = ? AND message_id = ?",
            f"onebot_v11-group_{group}",
            "w-hello from the wire",
        )
        assert told == (1,)
        assert whole.prompts(group) == []
