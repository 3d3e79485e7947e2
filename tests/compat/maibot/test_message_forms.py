"""Plugins read the parts of a message: its text with mentions, its names, and its
``additional_config``."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.chat import (
    EVERYONE,
    Author,
    ChatKey,
    ChatMessage,
    Image,
    Media,
    Mention,
    Notice,
    Record,
    Reply,
    Role,
    Segment,
    Segments,
    Sender,
    Text,
)
from nekro_core.compat.maibot.formats.message_text import leading_call, message_text
from nekro_core.compat.maibot.formats.messages import message_of
from nekro_core.testing import Bot
from nekro_core.testing.platform import ACCOUNT
from tests.compat.maibot.plant import plant

TEXTS: list[tuple[Segments, str]] = [
    ((Text("/x "), Mention("12345")), "/x @12345"),
    ((Text("/x"), Mention("12345", "Lin")), "/x @Lin"),
    ((Text("/x "), Mention("1", "Lin"), Text(" 60")), "/x @Lin 60"),
    ((Text("/x "), Mention("1", "Lin"), Text("60")), "/x @Lin 60"),
    ((Mention("1", "Lin"), Mention("2")), "@Lin @2"),
    ((Reply("5"), Mention(EVERYONE), Text("hi")), "@all hi"),
    ((Text("look"), Image(Media())), "look[image]"),
]


def test_a_mention_is_written_with_a_name_or_an_id() -> None:
    for segments, text in TEXTS:
        assert message_text(segments) == text


def test_a_command_may_follow_a_mention_of_the_bot_or_of_the_author_of_the_answered_message() -> (
    None
):
    me = Mention("10000", "Mai")
    assert leading_call((Reply("5"), me, Text(" /x "), me), "10000") == "@Mai"
    assert leading_call((Mention("1"), Text("/x")), "10000") == ""
    assert leading_call((Reply("5", "1"), Mention("1", "Lin"), Text(" /x")), "10000") == "@Lin"
    assert leading_call((Reply("5", "1"), Mention("2"), Text(" /x")), "10000") == ""
    assert leading_call((me,), "") == ""


def shown(key: str, *segments: Any, adapter: str = "onebot_v11", **more: Any) -> dict[str, Any]:
    message = ChatMessage(
        chat_key=ChatKey.parse(key),
        message_id="m1",
        sender=Sender("12", "Mei"),
        segments=segments,
        time=1.0,
        account="10000",
    )
    return message_of(message, adapter=adapter, account="10000", **more)


def test_a_message_has_the_names_of_its_group_and_its_sender() -> None:
    info = shown("onebot_v11-group_7", Text("hi"), group_name="Tea")["message_info"]
    assert info["group_info"]["group_name"] == "Tea"
    assert info["user_info"]["user_cardname"] == "Mei"
    assert shown("x-group_7", Text("hi"))["message_info"]["group_info"]["group_name"] == "7"


def test_a_message_says_in_which_chat_an_answer_goes() -> None:
    private = shown("onebot_v11-private_12", Text("hi"))["message_info"]["additional_config"]
    assert private == {
        "platform_io_target_user_id": "12",
        "self_id": "10000",
        "platform_io_account_id": "10000",
        "napcat_message_type": "private",
    }
    group = shown("onebot_v11-group_7", Text("hi"))["message_info"]["additional_config"]
    assert group["platform_io_target_group_id"] == "7"
    assert group["napcat_message_type"] == "group"
    other = shown(
        "irc-private_bob", Text("hi"), adapter="irc", inherited={"irc_host": "x", "self_id": "mai"}
    )["message_info"]["additional_config"]
    assert other == {
        "irc_host": "x",
        "self_id": "mai",
        "platform_io_account_id": "10000",
        "platform_io_target_user_id": "bob",
    }


@pytest.mark.parametrize(
    ("chat", "adapter", "role"),
    [
        ("onebot_v11-group_7", "onebot_v11", "admin"),
        ("onebot_v11-private_12", "onebot_v11", None),
        ("irc-group_7", "irc", None),
    ],
)
def test_a_message_of_a_qq_group_says_the_senders_role(
    chat: str, adapter: str, role: str | None
) -> None:
    message = ChatMessage(
        chat_key=ChatKey.parse(chat),
        message_id="1",
        sender=Sender("12", "Mei", Role.ADMIN),
        segments=(Text("hi"),),
        time=1.0,
        account="10000",
    )
    told = message_of(message, adapter=adapter, account="10000")
    assert told["message_info"]["additional_config"].get("user_role") == role
    own = Record(
        seq=1,
        chat_key=ChatKey.parse(chat),
        author=Author.BOT,
        segments=(Text("hi"),),
        time=1.0,
        message_id="2",
    )
    told = message_of(own, adapter=adapter, account="10000")
    assert "user_role" not in told["message_info"]["additional_config"]


def test_a_notice_has_the_fields_of_the_adapter_for_napcat() -> None:
    told = shown("onebot_v11-group_7", Notice("poke", "12", "10000"))
    config = told["message_info"]["additional_config"]
    assert told["is_notify"] is True
    assert (config["napcat_notice_type"], config["napcat_notice_sub_type"]) == ("notify", "poke")
    payload = config["napcat_notice_payload"]
    assert (payload["user_id"], payload["target_id"], payload["group_id"]) == ("12", "10000", "7")
    joined = shown("onebot_v11-group_7", Notice("join", "1", "12", "approve"))
    config = joined["message_info"]["additional_config"]
    assert config["napcat_notice_type"] == "group_increase"
    assert config["napcat_notice_payload"]["user_id"] == "12"
    assert config["napcat_notice_payload"]["operator_id"] == "1"


HUGGER = """
from maibot_sdk import Command, HookHandler, MaiBotPlugin

class Hugger(MaiBotPlugin):
    async def on_load(self): self.seen = []
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass

    @HookHandler("chat.receive.before_process")
    async def note(self, message=None, **kwargs):
        self.seen.append(message)

    @Command("hug", pattern=r"^/hug\\s+@(?P<who>\\S+)(?:\\s+(?P<times>\\d+))?$")
    async def hug(self, stream_id, matched_groups, **kwargs):
        who, times = matched_groups["who"], matched_groups["times"]
        await self.ctx.send.text(f"hugs {who} {times}", stream_id)
        return True, None, True

def create_plugin():
    return Hugger()
"""


async def test_a_command_reads_which_people_it_mentions(tmp_path: Path) -> None:
    plant(tmp_path, HUGGER, plugin_id="ann.hugger")
    async with Bot.open(tmp_path) as bot:
        me = Mention(ACCOUNT, "Nekro")
        await _hears(bot, Text("/hug "), Mention("12345"))
        await _hears(bot, Text("/hug"), Mention("1", "Mei"), Text(" 3"))
        await _hears(bot, me, Text(" /hug "), Mention("1", "Mei"))
        chat = bot.chat("group_7")
        await _until(lambda: len(chat.texts) == 3)
        assert chat.texts == ["hugs 12345 None", "hugs Mei 3", "hugs Mei None"]


async def _hears(bot: Bot, *segments: Segment) -> None:
    message = ChatMessage(
        chat_key=bot.chat("group_7").key,
        message_id=f"m{len(repr(segments))}",
        sender=Sender("lin", "Lin"),
        segments=segments,
        time=bot.clock.wall(),
        account=ACCOUNT,
    )
    await bot.app.host.accept(message)


BRIDGE = """
from maibot_sdk import HookHandler, MaiBotPlugin, MessageGateway

class Bridge(MaiBotPlugin):
    async def on_load(self):
        self.out, self.heard_before = [], {}
        await self.ctx.gateway.update_state("web", ready=True, platform="site", account_id="mai")
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass

    @MessageGateway("duplex", name="web", platform="site", account_id="mai")
    async def deliver(self, message, route, **kwargs):
        info = message["message_info"]
        config = info["additional_config"]
        to = config.get("platform_io_target_user_id") or config["platform_io_target_group_id"]
        group = (info["group_info"] or {}).get("group_name")
        self.out.append((to, config.get("site_ticket"), group, message["processed_plain_text"]))
        return {"success": True}

    @HookHandler("chat.receive.before_process")
    async def note(self, message=None, **kwargs):
        if message["message_id"] == "e-more":
            self.now = message["message_info"]["additional_config"]["site_ticket"]
            before = await self.ctx.message.get_by_id("e-all", chat_id=message["session_id"])
            self.heard_before = before["message_info"]["additional_config"]
            return {"action": "abort"}

    async def heard(self, text, group=None):
        info = {
            "user_info": {"user_id": "u9", "user_nickname": "Zoe", "user_cardname": "Z."},
            "additional_config": {"site_ticket": f"T-{text}", "site_notice_payload": "x"},
        }
        if group:
            info["group_info"] = {"group_id": "g1", "group_name": group}
        message = {
            "message_id": f"e-{text}", "message_info": info, "is_mentioned": True,
            "raw_message": [
                {"type": "text", "data": {"text": text}},
                {"type": "image", "data": "[picture]", "hash": "no-data"},
                {"type": "dict", "data": {"type": "json", "data": {"card": 1}}},
            ],
        }
        return await self.ctx.gateway.route_message("web", message)

def create_plugin():
    return Bridge()
"""


async def test_a_message_gateway_reads_to_whom_an_answer_goes(tmp_path: Path) -> None:
    plant(tmp_path, BRIDGE, plugin_id="ann.bridge")
    async with Bot.open(tmp_path) as bot:
        (kind,) = bot.app.plugins._kinds
        bridge = kind.plugins.find("ann.bridge").instance
        bot.foresee(reply="hello Zoe")
        assert await bridge.heard("hi") is True
        await _until(lambda: len(bridge.out) == 1)
        bot.foresee(reply="hello all")
        assert await bridge.heard("all", group="Tea") is True
        await _until(lambda: len(bridge.out) == 2)
        assert await bridge.heard("more", group="Tea") is True
        await _until(lambda: bridge.heard_before)
        assert '"[picture]"' in bot.prompt
        assert "+ json:" in bot.prompt
    assert bridge.now == "T-more"
    assert "site_ticket" not in bridge.heard_before
    assert bridge.heard_before["platform_io_target_group_id"] == "g1"
    assert bridge.out == [("u9", "T-hi", None, "hello Zoe"), ("g1", "T-all", "Tea", "hello all")]


async def _until(check: Any) -> None:
    with anyio.fail_after(30):
        while not check():
            await anyio.sleep(0.02)
