"""Some addresses are fetched for a chat, and others are refused.

An address from the chat's code is fetched only if the boxes of the chat may reach it. An address
that the plugin itself chooses needs no rule. The tests have no internet, so an address counts as
allowed if its host is looked up.
"""

import html
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from nekro_core.api.reactive import fetch_data, scope
from nekro_core.chat import ChatKey, File, Forward, ForwardedMessage, Image, Media
from nekro_core.compat.nekro_agent.message_functions import download_from_url
from nekro_core.delivery.media.fetch import Fetcher
from nekro_core.delivery.media.settings import MediaSettings
from nekro_core.delivery.media.store import MediaStore
from nekro_core.plugins.authoring.chat_network import ChatNetwork, PluginFetcher, PluginMediaKeeper
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.host.builtin import builtin_folder
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.sandbox.egress import EgressRules
from nekro_core.tools.outcome import Outcome, RichObservation, ToolCallFailed, ToolFailure
from nekro_core.tools.tool import ToolKind
from tests.plugins.world import GROUP, World
from tests.tools.make import tool_of

OTHER = ChatKey.parse("onebot_v11-group_30004")
URL = "http://pictures.example/cat.png"
OWN = "http://own.example/cat.png"


class Network:
    """The egress rules of the chats, and the hosts that were looked up."""

    def __init__(self) -> None:
        self.allowed: dict[ChatKey, EgressRules] = {}
        self.asked: list[str] = []

    def allow(self, *hosts: str, chat: ChatKey = GROUP) -> None:
        self.allowed[chat] = EgressRules.parse(hosts)

    async def resolve(self, host: str, _: int) -> list[str]:
        self.asked.append(host)
        raise OSError("this test has no internet")


@pytest.fixture
async def network(world: World, tmp_path: Path) -> AsyncIterator[Network]:
    made, settings = Network(), MediaSettings(private_hosts=frozenset({"own.example:80"}))
    fetcher = Fetcher(settings, resolve=made.resolve)
    chats = ChatNetwork(
        rules=lambda chat: made.allowed.get(chat, EgressRules()), spend=lambda _: lambda _: None
    )
    async with MediaStore(tmp_path / "kept", settings, fetcher=fetcher) as store:
        world.services = replace(
            world.services,
            media=PluginMediaKeeper(store, chats),
            fetcher=PluginFetcher(fetcher, chats),
        )
        yield made


async def send_image(_ctx: AgentCtx, url: str) -> str:
    """Send it."""
    await _ctx.send_image(url)
    return "sent"


async def send_file(_ctx: AgentCtx, url: str) -> str:
    """Send it."""
    await _ctx.send_file(url)
    return "sent"


async def send_segments(_ctx: AgentCtx, url: str) -> str:
    """Send it in a bundle."""
    inner = ForwardedMessage("1", "Lin", (File(Media(url=url)),))
    await _ctx.send([Image(Media(url=url)), Forward((inner,))])
    return "sent"


async def into_box(_ctx: AgentCtx, url: str) -> str:
    """Fetch it into the box."""
    return await download_from_url(url, _ctx)


async def read(_ctx: AgentCtx, url: str) -> str:
    """Read it."""
    return str(await _ctx.fs.fetch(url))


async def follow(_ctx: AgentCtx, url: str) -> str:
    """Have a cell fetch it."""
    async with scope(_ctx):
        found = await fetch_data(url).settled()
        if found.error is not None:
            raise ToolFailure(str(found.error))
        return str(found.result)


WAYS = (send_image, send_file, send_segments, into_box, read, follow)
Handler = Callable[..., Awaitable[Any]]


async def called(world: World, handler: Handler, *given: Any, **fields: Any) -> str:
    outcome: Outcome = await call_tool(tool_of(handler), world.ctx(**fields), given)
    assert isinstance(outcome, ToolCallFailed), outcome
    return outcome.message


@pytest.mark.parametrize("way", WAYS)
async def test_without_egress_rules_no_address_of_the_code_is_fetched(
    world: World, network: Network, way: Handler
) -> None:
    told = await called(world, way, URL)
    assert "no network" in told
    assert 'NEKRO_SANDBOX__EGRESS=["pictures.example"]' in told
    assert network.asked == []


@pytest.mark.parametrize("way", WAYS)
async def test_an_address_of_the_code_is_fetched_if_its_boxes_may_reach_it(
    world: World, network: Network, way: Handler
) -> None:
    network.allow("pictures.example")
    assert "no internet" in await called(world, way, URL)
    assert set(network.asked) == {"pictures.example"}
    assert "is not among" in await called(world, way, "http://other.example/")
    assert set(network.asked) == {"pictures.example"}


@pytest.mark.parametrize("way", WAYS)
async def test_an_address_that_the_plugin_chooses_needs_no_rule(
    world: World, network: Network, way: Handler
) -> None:
    async def fixed(_ctx: AgentCtx, what: str) -> Any:
        """Use an address that the plugin itself chooses."""
        return await way(_ctx, OWN)

    assert "no internet" in await called(world, fixed, "a cat of http://pictures.example")
    assert set(network.asked) == {"own.example"}


@pytest.mark.parametrize(
    ("host", "made"),
    [
        ("pictures.example", "http://{}/cat.png"),
        ("PICTURES.example", "https://{}/cat.png"),
        ("pictures.example:8080", "http://x:y@{}/cat.png"),
        ("b\u00fccher.example", "http://{}/"),
    ],
)
async def test_an_address_made_from_a_host_of_the_code_needs_a_rule(
    world: World, network: Network, host: str, made: str
) -> None:
    async def of_host(_ctx: AgentCtx, given: dict[str, list[str]]) -> str:
        """Use an address that is made from a host of the code."""
        return await send_image(_ctx, made.format(given["hosts"][0]))

    assert "no network" in await called(world, of_host, {"hosts": [host]})
    assert network.asked == []


async def test_the_rules_of_another_chat_do_not_count(world: World, network: Network) -> None:
    network.allow("pictures.example", chat=OTHER)

    async def elsewhere(_ctx: AgentCtx, url: str) -> str:
        """Use the context of another chat."""
        ctx = replace(_ctx, chat=OTHER, asked_in=_ctx.chat)
        return await send_image(ctx, url)

    assert "no network" in await called(world, elsewhere, URL)
    assert network.asked == []


async def test_an_address_in_a_persons_command_needs_no_rule(
    world: World, network: Network
) -> None:
    ctx = world.ctx(run_id="").called_for("ann.mod", given=f"/picture {URL}")
    with pytest.raises(Exception, match="no internet"):
        await send_image(ctx, URL)
    assert network.asked == ["pictures.example"]


async def test_the_address_of_a_picture_for_the_model_needs_a_rule_if_the_code_named_it(
    world: World, network: Network
) -> None:
    async def look(_ctx: AgentCtx, url: str) -> list[dict[str, Any]]:
        """Look."""
        return [{"type": "image_url", "image_url": {"url": url}}]

    outcome = await call_tool(tool_of(look, ToolKind.MULTIMODAL_AGENT), world.ctx(), (URL,))
    assert isinstance(outcome, ToolCallFailed)
    assert "no network" in outcome.message

    async def its_own(_ctx: AgentCtx) -> list[dict[str, Any]]:
        """Look."""
        return await look(_ctx, OWN)

    outcome = await call_tool(tool_of(its_own, ToolKind.MULTIMODAL_AGENT), world.ctx())
    assert isinstance(outcome, RichObservation)


async def test_the_built_in_tools_say_so_if_the_code_of_the_chat_has_no_network(
    world: World, network: Network, tmp_path: Path
) -> None:
    alone = tmp_path / "builtin"
    alone.mkdir()
    (alone / "chat").symlink_to(builtin_folder("plugins") / "chat")
    async with world.bot(builtin=alone) as registry:
        for name in ("send_image", "send_file", "view_image"):
            tool = registry.tools_for(GROUP).resolve(name)
            assert tool is not None
            outcome = await call_tool(tool, world.ctx(), (URL,))
            assert isinstance(outcome, ToolCallFailed)
            assert f"{name}: this chat's code has no network" in outcome.message
    assert network.asked == []


async def read_bytes(_ctx: AgentCtx, url: Any) -> str:
    """Read an address that is a text, bytes, or the only item of a set."""
    (text,) = url if isinstance(url, set | frozenset) else [url]
    return str(await _ctx.fs.fetch(text.decode() if isinstance(text, bytes) else text))


@pytest.mark.parametrize("given", [URL.encode(), {URL}, frozenset({URL.encode()})], ids=repr)
async def test_an_address_in_bytes_or_a_set_needs_a_rule(
    world: World, network: Network, given: Any
) -> None:
    assert "no network" in await called(world, read_bytes, given)
    assert network.asked == []


async def read_cleaned(_ctx: AgentCtx, url: str) -> str:
    """Clean an address, as plugins often do, and read it."""
    cleaned = re.sub("[\u00ad\u200b\u2060]", "", html.unescape(unquote(unquote(url))))
    cleaned = cleaned.replace("\u3002", ".").lower()
    return str(await _ctx.fs.fetch(cleaned))


@pytest.mark.parametrize(
    "host",
    ["pictures%2Eexample", "pictures%252Eexample", "pic\u00adtures.example",
     "pic\u200btures.example", "pictures&#46;example", "picture&#x73;.example",
     "PICTURES\u3002example"],
)  # fmt: skip
async def test_an_encoded_address_that_the_plugin_decodes_needs_a_rule(
    world: World, network: Network, host: str
) -> None:
    told = await called(world, read_cleaned, f"http://{host}/cat.png")
    assert network.asked == [], told


async def test_searching_long_arguments_for_a_host_is_fast(world: World, network: Network) -> None:
    given = [URL, "a" + "\u0300\u0316" * 30_000]
    began = time.process_time()

    async def first(_ctx: AgentCtx, urls: list[str]) -> str:
        """Read it."""
        return str(await _ctx.fs.fetch(urls[0]))

    assert "no network" in await called(world, first, given)
    assert time.process_time() - began < 0.5
