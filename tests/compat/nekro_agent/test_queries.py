"""Database queries, as plugins write them, give the right results."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tortoise.expressions import Q

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import ChatKey, ChatMessage, Image, Media, Mention, Sender, Text
from nekro_core.compat.nekro_agent.host import NekroAgentHost, use_host
from nekro_core.compat.nekro_agent.platform import LegacyAdapter
from nekro_core.compat.nekro_agent.rows.chats import DBChatChannel
from nekro_core.compat.nekro_agent.rows.errors import (
    DoesNotExist,
    MultipleObjectsReturned,
    NotKept,
    QueryError,
)
from nekro_core.compat.nekro_agent.rows.messages import DBChatMessage
from nekro_core.compat.nekro_agent.rows.plugin_data import DBPluginData
from nekro_core.compat.nekro_agent.rows.presets import DBPreset
from nekro_core.compat.nekro_agent.rows.users import DBUser
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.llm.settings import LLMSettings
from nekro_core.plugins.authoring.services import Services
from nekro_core.policy.permissions import CommandSettings
from nekro_core.policy.settings import TriggerSettings
from nekro_core.store import Store
from tests.plugins.world import World

SAID = (
    ("group_1", "ann", "I love tea", 100.0, False),
    ("group_1", "bob", "Tea? I prefer coffee", 101.5, True),
    ("group_1", "ann", "100% sure_thing", 102.0, False),
    ("group_2", "ann", "elsewhere", 103.0, False),
    ("private_ann", "ann", "秘密の話", 104.0, True),
)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return await request.getfixturevalue("postgres").database()
    return f"sqlite://{tmp_path / 'nekro.sqlite3'}"


@pytest.fixture
async def host(url: str, tmp_path: Path, world: World) -> AsyncIterator[NekroAgentHost]:
    async with Store.open(url) as store:
        await store.accounts.bind("web", "bot")
        inbox = Inbox(store, Broadcast())
        for number, (place, who, text, time, to_bot) in enumerate(SAID, 1):
            await inbox.accept(
                inbox.stamp(
                    ChatMessage(
                        chat_key=ChatKey.parse(f"web-{place}"),
                        message_id=f"m{number}",
                        sender=Sender(who, who.title()),
                        segments=(Text(text),),
                        time=time,
                        account="bot",
                        to_bot=to_bot,
                    )
                )
            )
        await inbox.note(ChatKey.parse("web-group_1"), "a bell rang")
        host = NekroAgentHost(
            store=store,
            llm=LLMSettings(),
            agent=AgentSettings(names=("Nekro",), persona="A cat."),
            trigger=TriggerSettings(),
            command=CommandSettings(super_users=frozenset({"web:ann"})),
            adapters={},
            data_dir=tmp_path,
        )
        host.plugins = _Plugins(world.services)  # type: ignore[assignment]
        with use_host(host):
            yield host


class _Plugins:
    def __init__(self, services: Services) -> None:
        self.services = services


GROUP = {"chat_key": "web-group_1"}


ASKED: tuple[tuple[dict[str, Any], list[int]], ...] = (
    ({}, [1, 2, 3, 4, 5]),
    (GROUP, [1, 2, 3]),
    ({"sender_id": "ann"}, [1, 3, 4, 5]),
    ({"platform_userid": "bob"}, [2]),
    ({"sender_id__in": ["bob", "nobody"]}, [2]),
    ({"sender_id__in": []}, []),
    ({"sender_nickname": "Ann", **GROUP}, [1, 3]),
    ({"send_timestamp__gte": 102}, [3, 4, 5]),
    ({"send_timestamp__gt": 102}, [4, 5]),
    ({"send_timestamp__lt": 101}, [1]),
    ({"send_timestamp__lte": 101}, [1, 2]),
    ({"send_timestamp__gt": 101.5}, [3, 4, 5]),
    ({"send_timestamp__gte": 101.5}, [3, 4, 5]),
    ({"send_timestamp__lt": 101.5}, [1, 2]),
    ({"send_timestamp__lte": 101.5}, [1, 2]),
    ({"send_timestamp__lt": float("inf")}, [1, 2, 3, 4, 5]),
    ({"send_timestamp": 101}, [2]),
    ({"send_timestamp__range": (101, 103)}, [2, 3, 4]),
    ({"content_text__contains": "tea"}, [1]),
    ({"content_text__icontains": "TEA"}, [1, 2]),
    ({"content_text__contains": "%"}, [3]),
    ({"content_text__contains": "_"}, [3]),
    ({"content_text__startswith": "I "}, [1]),
    ({"content_text__endswith": "話"}, [5]),
    ({"is_tome": 1}, [2, 5]),
    ({"is_tome": True, "chat_type": "private"}, [5]),
    ({"is_recalled": False, "id__lte": 2}, [1, 2]),
    ({"message_id": "m4"}, [4]),
    ({"adapter_key": "web", "sender_id__not": "ann"}, [2]),
    ({"chat_key__startswith": "web-group"}, [1, 2, 3, 4]),
    ({"chat_key__startswith": "WEB-group"}, []),
    ({"chat_key__contains": "group_2"}, [4]),
    ({"chat_key__contains": "GROUP_2"}, []),
    ({"sender_id__not_in": ["ann", "nobody"]}, [2]),
    ({"sender_id__not_in": []}, [1, 2, 3, 4, 5]),
    ({"id__in": [1, 5, 99], "is_recalled__not": True}, [1, 5]),
)


async def test_messages_are_filtered_ordered_and_counted(host: NekroAgentHost) -> None:
    # All queries use one database, because making a database takes longer than the queries.
    for asked, ids in ASKED:
        people = DBChatMessage.filter(**asked).exclude(sender_id=-1)
        assert [row.id for row in await people] == ids, asked
        assert await people.count() == len(ids)
        assert [row.id for row in await people.order_by("-id").limit(2)] == ids[::-1][:2]
        newest = await people.order_by("-send_timestamp").first()
        assert (newest.id if newest else None) == (ids[-1] if ids else None)
        assert await people.exists() is bool(ids)
        assert await people.order_by("id").offset(1).values_list("id", flat=True) == ids[1:]


async def test_q_objects_combine_conditions(host: NekroAgentHost) -> None:
    either = Q(sender_id="bob") | Q(content_text__contains="sure")
    assert await DBChatMessage.filter(either, **GROUP).values_list("id", flat=True) == [2, 3]
    assert await DBChatMessage.filter(~Q(sender_id="ann") & Q(**GROUP)).count() == 2
    shorter = await DBChatMessage.filter(**GROUP).order_by("content_text").limit(1)
    assert [row.content_text for row in shorter] == ["100% sure_thing"]
    found = await DBChatMessage.filter(id__in=[1, 2]).values("id", who="sender_name")
    assert found == [{"id": 1, "who": "Ann"}, {"id": 2, "who": "Bob"}]
    assert [row.id async for row in DBChatMessage.filter(sender_id="bob")] == [2]


async def test_a_query_for_one_row_gives_one_dict_or_tuple_or_none(host: NekroAgentHost) -> None:
    bob, nobody = DBChatMessage.filter(sender_id="bob"), DBChatMessage.filter(sender_id="zoe")
    for one in (
        bob.first().values("id"),
        bob.values("id").first(),
        bob.values("id").last(),
        DBChatMessage.get(sender_id="bob").values("id"),
        DBChatMessage.get_or_none(sender_id="bob").values("id"),
    ):
        assert await one == {"id": 2}
    assert await bob.first().values_list("id", "sender_id") == (2, "bob")
    assert await bob.first().values_list("id", flat=True) == 2
    assert await nobody.first().values("id") is None
    assert await nobody.values("id").first() is None
    assert not await nobody.values("id").exists()
    with pytest.raises(DoesNotExist):
        await DBChatMessage.get(sender_id="zoe").values("id")
    assert [row async for row in bob.values("id")] == [{"id": 2}]


async def test_a_message_row_has_its_fields_and_its_text_cannot_be_changed(
    host: NekroAgentHost,
) -> None:
    await host.store.messages.recall(ChatKey.parse("web-group_1"), "m3")
    row = await DBChatMessage.get(message_id="m2")
    assert (row.sender_name, row.chat_type, row.adapter_key) == ("Bob", "group", "web")
    assert (row.send_timestamp, row.is_tome, row.is_recalled) == (101, 1, False)
    assert [each.type for each in row.parse_content_data()] == ["text"]
    assert row.to_chat_message().content_text == "Tea? I prefer coffee"
    (line,) = await DBChatMessage.filter(sender_id=-1)
    assert (line.sender_name, line.content_text, line.is_system) == ("SYSTEM", "a bell rang", True)
    assert await DBChatMessage.filter(is_recalled=True).values_list("id", flat=True) == [3]
    row = await DBChatMessage.get(message_id="m2")
    row.content_text = "I said nothing"
    with pytest.raises(NotKept, match="is_recalled can be set"):
        await row.save()
    assert await DBChatMessage.filter(sender_id="bob").delete() == 1
    assert (await DBChatMessage.get(message_id="m2")).is_recalled
    made = await DBChatMessage.create(
        chat_key="web-group_1",
        sender_id="eve",
        sender_name="Eve",
        content_text="hi",
        message_id="x",
    )
    assert (await DBChatMessage.get(id=made.id)).content_text == "hi"


async def test_the_error_of_an_invalid_query_names_what_exists(host: NekroAgentHost) -> None:
    with pytest.raises(QueryError, match=r"no field 'text'; there are .*content_text"):
        DBChatMessage.filter(text="x")
    with pytest.raises(QueryError, match="no lookup 'sounds_like'"):
        DBChatMessage.filter(content_text__sounds_like="x")
    with pytest.raises(QueryError, match="order_by"):
        DBChatMessage.all().order_by("-when")
    with pytest.raises(DoesNotExist):
        await DBChatMessage.get(id=99)
    with pytest.raises(MultipleObjectsReturned):
        await DBChatMessage.get(sender_id="ann")
    assert await DBChatMessage.get_or_none(id=99) is None


async def test_chat_and_user_rows_are_read_and_changed(host: NekroAgentHost) -> None:
    keys = await DBChatChannel.all().order_by("chat_key").values_list("chat_key", flat=True)
    assert keys == ["web-group_1", "web-group_2", "web-private_ann"]
    channel = await DBChatChannel.get_channel(chat_key="web-group_1")
    assert (channel.channel_id, channel.channel_type, channel.adapter_key) == (
        "group_1",
        "group",
        "web",
    )
    channel.channel_name = "Tea house"
    await channel.set_active(False)
    await channel.save_channel_data({"mood": "calm"})
    again = await DBChatChannel.get_or_none(chat_key="web-group_1")
    assert (again.channel_name, again.is_active) == ("Tea house", False)
    assert await again.get_channel_data() == {"mood": "calm"}
    assert await DBChatChannel.filter(is_active=True).count() == 2
    ann = await DBUser.get_or_none(adapter_key="web", platform_userid="ann")
    assert (ann.username, ann.perm_level, ann.unique_id) == ("Ann", 3, "web:ann")
    assert (await DBUser.get_by_union_id("web", "bob")).perm_level == 1
    assert await DBUser.get_by_union_id("discord", "ann") is None
    ann.ext_data = {"likes": "tea"}
    await ann.save()
    assert (await DBUser.get(id=ann.id)).ext_data == {"likes": "tea"}


async def test_a_person_is_found_at_any_account_of_an_adapter(host: NekroAgentHost) -> None:
    await host.store.accounts.bind("web", "second", name="shop")
    inbox = Inbox(host.store, Broadcast())
    await inbox.accept(
        inbox.stamp(
            ChatMessage(
                chat_key=ChatKey.parse("shop-group_9"),
                message_id="m10",
                sender=Sender("eve", "Eve"),
                segments=(Text("hello"),),
                time=111.0,
                account="second",
                chat_name="Shop",
            )
        )
    )
    adapter = LegacyAdapter("web", None)
    assert (await adapter.get_user_info("ann")).user_name == "Ann"
    assert (await adapter.get_user_info("eve", "group_9")).user_name == "Eve"
    assert (await adapter.get_user_info("nobody")).user_name == ""
    assert (await adapter.get_channel_info("group_9")).channel_name == "Shop"
    assert (await adapter.get_channel_info("web-group_1")).channel_name == "1"
    assert await LegacyAdapter("mail", None).get_user_info("ann")


async def test_the_operator_has_the_first_row_of_the_users(host: NekroAgentHost) -> None:
    names = DBUser.all().values_list("username", flat=True)
    assert await names == ["admin", "Ann", "Bob"]
    assert await names.offset(1).limit(1) == ["Ann"]
    assert await names.limit(2) == ["admin", "Ann"]
    assert await names.order_by("-username") == ["admin", "Bob", "Ann"]
    assert await DBUser.all().count() == await DBUser.filter(id__not=1).count() + 1 == 3
    operator = await DBUser.get(perm_level__gte=3, platform_userid="")
    with pytest.raises(NotKept, match="the operator"):
        await operator.save()
    assert await DBUser.first() == operator
    assert operator not in await DBUser.filter(id__gt=1)


async def test_presets_and_plugin_data_are_stored(host: NekroAgentHost) -> None:
    pirate = await DBPreset.create(name="Pirate", content="You are a pirate.")
    channel = await DBChatChannel.get_channel(chat_key="web-group_1")
    assert (await channel.get_preset()).content == "A cat."
    await channel.set_preset(pirate.id)
    channel = await DBChatChannel.get_channel(chat_key="web-group_1")
    assert (await channel.get_preset()).name == "Pirate"
    assert await DBPreset.filter(name__icontains="pir").count() == 1
    await host.store.plugin_data.set("ann.x", "1", chat_key="web-group_1", store_key="k")
    row = await DBPluginData.get(plugin_key="ann.x", data_key="k")
    row.data_value = "2"
    await row.save()
    assert await host.store.plugin_data.get("ann.x", chat_key="web-group_1", store_key="k") == "2"


async def test_pictures_and_mentions_in_a_message_row_are_segments(host: NekroAgentHost) -> None:
    inbox = Inbox(host.store, Broadcast())
    media = Media(path="/data/uploads/x.png", name="cat.png", url="https://a.example/cat.png")
    await inbox.accept(
        inbox.stamp(
            ChatMessage(
                chat_key=ChatKey.parse("web-group_1"),
                message_id="m9",
                sender=Sender("ann", "Ann"),
                segments=(Mention("bot", "Nekro"), Text("look"), Image(media)),
                time=110.0,
                account="bot",
            )
        )
    )
    at, words, image = (await DBChatMessage.get(message_id="m9")).parse_content_data()
    assert (at.type, at.target_platform_userid) == ("at", "bot")
    assert (words.type, words.text) == ("text", "look")
    assert (image.type, image.file_name, image.local_path) == ("image", "cat.png", media.path)
