"""With `AgentCtx`, a handler reads about its chat and sends to the chat."""

from dataclasses import replace
from pathlib import Path

import pytest

from nekro_core.chat import ChatKey, DeliveryState, Image, Receipt, Reply, Text, Voice
from nekro_core.compat.nekro_agent import message_functions
from nekro_core.delivery.errors import NothingToSend
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.tools.outcome import ToolFailure
from tests.plugins.world import GROUP, World


def test_a_context_has_its_chat_and_its_requester(world: World) -> None:
    ctx = world.ctx()
    assert ctx.chat_key == "onebot_v11-group_30003"
    assert (ctx.adapter_key, ctx.channel_id, ctx.channel_type) == (
        "onebot_v11",
        "group_30003",
        "group",
    )
    assert ctx.from_user_id == "10001"


def test_a_chat_without_a_name_has_the_name_of_its_person_or_its_id(world: World) -> None:
    assert world.ctx().channel_name == "30003"
    private = ChatKey.parse("onebot_v11-private_10001")
    assert world.ctx(chat=private).channel_name == "Lin"
    assert world.ctx(chat=private, from_user_name="").channel_name == "10001"
    named = replace(world.services, chat_name={GROUP: "Tea house"}.__getitem__)
    assert world.ctx(services=named).channel_name == "Tea house"


async def test_texts_pictures_voices_and_files_are_sent(world: World) -> None:
    ctx = world.ctx()
    world.box.files["card.png"] = b"picture"
    await ctx.send_text("hello", reply_to="77")
    await ctx.send_image("card.png")
    await ctx.send_voice(b"RIFF", text="good night")
    await ctx.send_file(b"data", name="a.csv")
    words, image, voice, file = (segments for _, segments, _ in world.outgoing.sent)
    assert words == (Reply("77"), Text("hello"))
    assert isinstance(image[0], Image)
    assert Path(image[0].media.path).read_bytes() == b"picture"
    assert image[0].media.name == "card.png"
    assert isinstance(voice[0], Voice)
    assert voice[0].text == "good night"
    assert file[0].media.name == "a.csv"
    assert {run for _, _, run in world.outgoing.sent} == {"run-1"}


async def test_a_str_is_never_used_as_a_path_on_the_host(world: World, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    for send in (world.ctx().send_image, world.ctx().send_file):
        with pytest.raises(ToolFailure, match="no such file"):
            await send(str(secret))
    assert world.outgoing.sent == []
    await world.ctx().send_file(secret)
    assert world.outgoing.texts == ["[file: secret.txt]"]


async def test_a_picture_is_fetched_from_its_address_and_an_error_answer_is_an_error(
    world: World,
) -> None:
    world.media.pages["https://a.example/x.png"] = b"picture"
    await world.ctx().send_image("https://a.example/x.png")
    with pytest.raises(ToolFailure, match="answers 404"):
        await world.ctx().send_image("https://a.example/y.png")


@pytest.mark.parametrize("state", [DeliveryState.REJECTED, DeliveryState.DROPPED])
async def test_a_refused_send_is_an_error(world: World, state: DeliveryState) -> None:
    world.outgoing.answer = Receipt(state=state, reason="muted")
    with pytest.raises(ToolFailure, match=f"the message was {state.value}: muted"):
        await world.ctx().send_text("hello")


@pytest.mark.parametrize("state", [DeliveryState.UNKNOWN, DeliveryState.PENDING])
async def test_a_send_that_is_unknown_or_pending_is_not_an_error(
    world: World, state: DeliveryState
) -> None:
    world.outgoing.answer = Receipt(state=state)
    (receipt,) = await world.ctx().send_text("hello")
    assert receipt.state is state


async def test_an_empty_message_is_an_error(world: World) -> None:
    class Refusing:
        async def send(self, *_: object, **__: object) -> tuple[Receipt, ...]:
            raise NothingToSend("the message is empty")

    ctx = world.ctx(services=replace(world.services, outgoing=Refusing()))
    with pytest.raises(ToolFailure, match="the message is empty"):
        await ctx.send_text("\u200b")
    with pytest.raises(ToolFailure, match="the text is empty"):
        await ctx.send_text(" ")


async def test_writing_to_another_chat_needs_the_operators_permission(world: World) -> None:
    elsewhere = "web-private_lin"
    ctx = world.ctx(owner="ann.mod")
    with pytest.raises(ToolFailure, match="NEKRO_PLUGIN__MAY_SEND_ELSEWHERE"):
        await message_functions.send_text(elsewhere, "psst", ctx)
    with pytest.raises(ToolFailure, match="NEKRO_PLUGIN__MAY_SEND_ELSEWHERE"):
        await message_functions.push_system(elsewhere, "psst", ctx)
    with pytest.raises(ToolFailure, match="is no chat key"):
        await message_functions.send_text("nonsense", "psst", ctx)
    allowed = replace(world.services, may_send_elsewhere=frozenset({"ann.mod"}))
    await message_functions.send_text(elsewhere, "psst", replace(ctx, services=allowed))
    assert [str(key) for key, _, _ in world.outgoing.sent] == [elsewhere]


async def test_a_plugin_can_add_system_lines(world: World) -> None:
    await world.ctx().push_system("a timer rang", trigger_agent=True)
    await message_functions.push_system(str(GROUP), "noted", world.ctx())
    assert world.journal.notes == [(GROUP, "a timer rang", True), (GROUP, "noted", False)]


async def test_files_of_the_box_are_written_read_and_fetched(world: World, tmp_path: Path) -> None:
    fs = world.ctx().fs
    assert await fs.write("a.txt", b"a") == "a.txt"
    assert await fs.read("a.txt") == b"a"
    own = tmp_path / "own.bin"
    own.write_bytes(b"own")
    assert await fs.mixed_forward_file(own) == "/home/user/own.bin"
    assert await fs.mixed_forward_file(b"x", "../../etc/x.bin") == "/home/user/x.bin"
    assert await fs.mixed_forward_file("a.txt") == "a.txt"
    world.media.pages["https://a.example/x.png"] = b"picture"
    path = await message_functions.download_from_url("https://a.example/x.png", world.ctx())
    assert world.box.files[path] == b"picture"
    assert await fs.fetch("https://a.example/x.png") == b"picture"


async def test_without_a_box_file_functions_raise_an_error(world: World) -> None:
    ctx: AgentCtx = world.ctx(box=None)
    with pytest.raises(ToolFailure, match="there is no box here"):
        await ctx.fs.read("a.txt")
    with pytest.raises(ToolFailure, match="at most"):
        await world.ctx().fs.write("big", bytes(33 * 1024 * 1024))
