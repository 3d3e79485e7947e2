"""The media of chats are shared between processes: in a folder, and on a real NATS server."""

import hashlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx
import pytest

from nekro_core.agent.prompt.pictures import PromptPictures
from nekro_core.agent.prompt.transcript import box_path
from nekro_core.agent.settings import AgentSettings
from nekro_core.agent.turn.boxes import ChatBoxes
from nekro_core.chat import Author, ChatKey, File, Image, Media, Record, Sender, Text, Voice
from nekro_core.cluster.errors import ClusterUnavailable
from nekro_core.cluster.local_objects import LocalObjects
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.nats_objects import NatsObjects
from nekro_core.cluster.objects import ObjectStore
from nekro_core.cluster.shared_media import MEDIA, SharedMediaFiles, object_of
from nekro_core.delivery.media.links import MediaLinks
from nekro_core.delivery.media.settings import MediaSettings
from nekro_core.delivery.media.store import MediaStore
from nekro_core.media.converter import MediaConverter
from nekro_core.store import Store, StoreSettings
from nekro_core.store.changes import ChangeTopic
from nekro_core.store.media_paths import MediaPaths
from tests.agent.pictures import PNG
from tests.peers.nats import NatsServer
from tests.peers.postgres import PostgresServer
from tests.sandbox.named.memory_boxes import Clock, MemorySource

from .conformance import until

GROUP = ChatKey.parse("fake-group_1")
OTHER = ChatKey.parse("fake-group_2")
WORDS = b"the vermilion heron stands in the reeds"
CONTENT = WORDS * 10_000
"""390 kB: an object of several chunks."""


@dataclass
class Node:
    """A process with a data folder of its own."""

    media: MediaStore
    shared: SharedMediaFiles
    folder: Path

    async def hears(self, chat_key: ChatKey, content: bytes = CONTENT) -> Media:
        """Receive a file in a chat."""
        medium = await self.media.keep_bytes(chat_key, content, name="heron.txt", expect="file")
        assert not medium.problem
        return medium

    def files(self) -> list[str]:
        """The names of the media on this machine."""
        found = self.folder.rglob("*.*")
        return sorted(path.name for path in found if not path.name.startswith("."))


async def node_on(
    store: Store,
    objects: ObjectStore,
    folder: Path,
    settings: MediaSettings | None = None,
    wall: Callable[[], float] = lambda: 2e9,
) -> Node:
    """Make a process. Its clock is far in the future, so that no file is young."""
    settings = settings or MediaSettings()
    uploads = folder / "uploads"
    shared = SharedMediaFiles(store, objects, uploads, settings, folder.name, wall=wall)
    await shared.begin()
    return Node(MediaStore(folder, settings, shared=shared), shared, uploads)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as store:
        yield store


class SharedMediaContract:
    """The tests of shared media. The fixture ``objects`` must give an object store."""

    async def test_what_a_gateway_receives_is_read_by_a_worker(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        gateway = await node_on(store, objects, tmp_path / "gateway")
        worker = await node_on(store, objects, tmp_path / "worker")
        medium = await gateway.hears(GROUP)
        assert worker.files() == []
        assert await worker.media.read(GROUP, medium.path) == CONTENT
        assert worker.files() == gateway.files() == [Path(medium.path).name]
        assert await worker.media.read(OTHER, medium.path) is None
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(worker.media.bring, medium.path)
        assert worker.files() == gateway.files()

    async def test_a_medium_is_stored_once_however_often_it_is_received(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        gateway = await node_on(store, objects, tmp_path / "gateway")
        worker = await node_on(store, objects, tmp_path / "worker")
        first = await gateway.hears(GROUP)
        for _ in range(3):
            assert (await worker.hears(GROUP)).sha256 == first.sha256
        await worker.hears(OTHER)
        assert len(await objects.names(MEDIA)) == 2
        assert not any("fake" in name for name in await objects.names())

    async def test_an_erased_medium_is_gone_everywhere(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        gateway = await node_on(store, objects, tmp_path / "gateway")
        worker = await node_on(store, objects, tmp_path / "worker")
        third = await node_on(store, objects, tmp_path / "third")
        medium, other = await gateway.hears(GROUP), await gateway.hears(OTHER, b"stays")
        for each in (medium, other):
            await worker.media.bring(each.path)
            await third.media.bring(each.path)
        assert await third.media.forget(GROUP, medium.path)
        assert await objects.names() == [object_of(Path(other.path))]
        await worker.shared.follow(f"another {GROUP}")
        await gateway.shared.follow("")  # It was away, and reads everything again.
        for node in (gateway, worker, third):
            assert node.files() == [Path(other.path).name]
            assert await node.media.read(GROUP, medium.path) is None
        assert not await worker.media.forget(GROUP, medium.path)

    async def test_an_erased_chat_is_gone_everywhere(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        gateway = await node_on(store, objects, tmp_path / "gateway")
        worker = await node_on(store, objects, tmp_path / "worker")
        names = [(await gateway.hears(GROUP, b"%d" % number)).path for number in range(3)]
        stays = await gateway.hears(OTHER)
        await worker.media.bring(names[1])
        orphan = f"{object_of(Path(names[0])).rpartition('/')[0]}/left-by-a-killed-process"
        await objects.put(orphan, Path(names[0]))
        await gateway.media.forget_chat(GROUP)
        await worker.shared.follow(f"another {GROUP}")
        assert await objects.names() == [object_of(Path(stays.path))]
        assert worker.files() == []
        assert gateway.files() == [Path(stays.path).name]

    async def test_a_missing_or_damaged_object_is_like_a_deleted_file(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        gateway = await node_on(store, objects, tmp_path / "gateway")
        worker = await node_on(store, objects, tmp_path / "worker")
        missing, damaged = await gateway.hears(GROUP), await gateway.hears(GROUP, b"right")
        await objects.delete(object_of(Path(missing.path)))
        wrong = tmp_path / "wrong"
        wrong.write_bytes(b"wrong")
        await objects.put(object_of(Path(damaged.path)), wrong)
        for medium in (missing, damaged):
            assert await worker.media.read(GROUP, medium.path) is None
        assert worker.files() == []

    async def test_the_oldest_media_of_a_chat_are_deleted_above_its_quota(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        settings = MediaSettings(chat_quota_bytes=100_000)
        gateway = await node_on(store, objects, tmp_path / "gateway", settings)
        media = [await gateway.hears(GROUP, bytes([number]) * 30_000) for number in range(4)]
        stored = [object_of(Path(each.path)) for each in media]
        assert set(await objects.names()) == {stored[-2], stored[-1], stored[-3]}
        assert await store.media_files.size(GROUP) == 90_000
        assert await gateway.media.tidy(3e9) >= 3
        assert await objects.names() == []

    async def test_media_of_a_bot_that_ran_alone_are_shared_at_the_first_start(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        alone = MediaStore(tmp_path / "gateway")
        medium = await alone.keep_bytes(GROUP, CONTENT, name="heron.txt", expect="file")
        await store.messages.add(
            Record(
                seq=store.messages.reserve(),
                chat_key=GROUP,
                author=Author.PERSON,
                segments=(File(medium),),
                time=1.0,
                sender=Sender("lin"),
            ),
            unique_id="m1",
            before=store.chats.seen(GROUP),
        )
        gateway = await node_on(store, objects, tmp_path / "gateway")
        await gateway.shared.follow("")
        worker = await node_on(store, objects, tmp_path / "worker")
        assert await worker.media.read(GROUP, medium.path) == CONTENT


class TestInAFolder(SharedMediaContract):
    @pytest.fixture
    def objects(self, tmp_path: Path) -> LocalObjects:
        return LocalObjects(tmp_path / "objects")


@pytest.mark.long
class TestOnNats(SharedMediaContract):
    @pytest.fixture
    async def objects(self, connection: NatsConnection) -> NatsObjects:
        return await NatsObjects.open(connection)


class UnreachableObjects(LocalObjects):
    """An object store that cannot be reached until the test says so."""

    away = True

    async def put(self, name: str, source: Path) -> None:
        if self.away:
            raise ClusterUnavailable("NATS does not answer")
        await super().put(name, source)


async def test_media_that_come_while_the_object_store_is_away_are_stored_later(
    store: Store, tmp_path: Path
) -> None:
    objects = UnreachableObjects(tmp_path / "objects")
    gateway = await node_on(store, objects, tmp_path / "gateway")
    medium = await gateway.hears(GROUP)
    assert await objects.names() == []
    objects.away = False
    # The process is started again.
    gateway = await node_on(store, objects, tmp_path / "gateway")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.shared.live)
        with anyio.fail_after(30):
            while not await objects.names():
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    worker = await node_on(store, objects, tmp_path / "worker")
    assert await worker.media.read(GROUP, medium.path) == CONTENT


async def test_a_record_that_another_process_stored_can_be_changed(
    store: Store, tmp_path: Path
) -> None:
    """The transcript of a voice is stored by the worker, and the voice by the gateway."""
    path = f"{tmp_path}/gateway/uploads/fake-group_1/{'0' * 32}.ogg"
    record = Record(
        seq=store.messages.reserve(),
        chat_key=GROUP,
        author=Author.PERSON,
        segments=(Voice(Media(path=path)),),
        time=1.0,
        sender=Sender("lin"),
    )
    await store.messages.add(record, unique_id="m1", before=store.chats.seen(GROUP))
    store.messages.media_paths.folder = tmp_path / "worker" / "uploads"
    (known,) = await store.messages.newest(GROUP, 5)
    (voice,) = known.segments
    assert isinstance(voice, Voice)
    assert voice.media.path == path.replace("/gateway/", "/worker/")
    said = await store.messages.reword(known, (Voice(voice.media, "good morning"),), keep=True)
    assert said is not None
    assert [each.segments for each in await store.messages.newest(GROUP, 5)] == [said.segments]
    assert await store.messages.reword(known, (Text("too late"),)) is None


async def test_an_erased_file_of_this_process_is_deleted_at_once(
    store: Store, tmp_path: Path
) -> None:
    objects = LocalObjects(tmp_path / "objects")
    gateway = await node_on(store, objects, tmp_path / "gateway", wall=time.time)
    third = await node_on(store, objects, tmp_path / "third")
    medium, other = await gateway.hears(GROUP), await gateway.hears(GROUP, b"other")
    await third.media.forget(GROUP, medium.path)
    await gateway.shared.follow(f"another {GROUP}")
    assert gateway.files() == [Path(other.path).name]
    await third.media.forget(GROUP, other.path)
    again = await node_on(store, objects, tmp_path / "gateway", wall=time.time)
    await again.shared.follow("")
    assert again.files() == []


async def test_a_file_that_is_just_being_stored_is_not_taken_for_an_erased_one(
    store: Store, tmp_path: Path
) -> None:
    now = [0.0]
    objects = LocalObjects(tmp_path / "objects")
    gateway = await node_on(store, objects, tmp_path / "gateway", wall=lambda: now[0])
    folder = gateway.folder / GROUP.file_name
    folder.mkdir(parents=True)
    name = f"{hashlib.sha256(WORDS).hexdigest()[:32]}.txt"
    (folder / name).write_bytes(WORDS)
    now[0] = (folder / name).stat().st_ctime + 1
    await gateway.shared.follow("")
    assert gateway.files() == [name]
    now[0] += 3600
    await gateway.shared.follow("")
    assert gateway.files() == []


def test_media_paths_of_another_process_are_replaced_by_paths_in_the_own_folder() -> None:
    name = "0123456789abcdef0123456789abcdef.png"
    paths = MediaPaths()
    segments = (
        Text("look"),
        Image(Media(path=f"/gateway/uploads/fake-group_1/{name}")),
        File(Media(path="/gateway/plugin_data/uploads/other.txt")),
        File(Media(path="/gateway/uploads/../../etc/passwd")),
    )
    assert paths.here(segments) is segments
    paths.folder = Path("/worker/uploads")
    found = paths.here(segments)
    assert found[1] == Image(Media(path=f"/worker/uploads/fake-group_1/{name}"))
    assert (found[0], *found[2:]) == (segments[0], *segments[2:])
    assert paths.here(found) == found


async def test_links_boxes_and_prompts_show_media_of_another_process(
    store: Store, tmp_path: Path
) -> None:
    objects = LocalObjects(tmp_path / "objects")
    gateway = await node_on(store, objects, tmp_path / "gateway")
    received = [
        await gateway.media.keep_bytes(GROUP, content, name=name, expect="file")
        for name, content in (("a.txt", b"one"), ("b.txt", b"two"), ("c.png", PNG))
    ]
    worker = await node_on(store, objects, tmp_path / "worker")
    paths = MediaPaths()
    paths.folder = worker.folder
    linked, put, shown = (
        segment.media for segment in paths.here([File(medium) for medium in received])
    )
    links = MediaLinks(
        worker.folder.parent,
        lambda: "secret",
        address="https://bot.example.org",
        bring=worker.media.bring,
    )
    link = links.link(GROUP, linked).removeprefix("https://bot.example.org/media")
    transport = httpx.ASGITransport(links)
    async with httpx.AsyncClient(transport=transport, base_url="https://bot") as client:
        assert (await client.get(link)).content == b"one"
    boxes = ChatBoxes(
        MemorySource(), tmp_path / "boxes", AgentSettings(), clock=Clock(), bring=worker.media.bring
    )
    box = await boxes.open(GROUP)
    await box.put_uploads([put])
    assert await box.box.read_file(box_path(put), limit=100) == b"two"
    await boxes.close(GROUP, box, changed=False)
    async with MediaConverter() as converter:
        pictures = PromptPictures(converter, longer_side=512, bring=worker.media.bring)
        assert await pictures.part(shown.path) is not None


@pytest.mark.long
async def test_erased_words_are_not_in_the_files_of_nats(
    nats_server: NatsServer, connection: NatsConnection, store: Store, tmp_path: Path
) -> None:
    objects = await NatsObjects.open(connection)
    gateway = await node_on(store, objects, tmp_path / "gateway")
    mine, other = await gateway.hears(GROUP), await gateway.hears(OTHER, b"a grey heron" * 1000)
    assert nats_server.holds(WORDS)
    await objects.put(object_of(Path(mine.path)), Path(mine.path))  # It is replaced.
    await gateway.media.forget(GROUP, mine.path)
    assert await objects.names() == [object_of(Path(other.path))]
    nats_server.stop()
    assert not nats_server.holds(WORDS)
    assert nats_server.holds(b"a grey heron")
    assert not nats_server.holds(b"fake-group")


@pytest.mark.long
async def test_a_process_hears_of_an_erasure_by_another_process(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    database, objects = await postgres.database(), LocalObjects(tmp_path / "objects")
    async with AsyncExitStack() as stack:
        nodes = []
        for name in ("gateway", "worker"):
            store = await stack.enter_async_context(Store.open(database, StoreSettings(node=name)))
            node = await node_on(store, objects, tmp_path / name)
            store.messages.media_paths.folder = node.folder
            store.changes.listen(ChangeTopic.MEDIA_FILES, node.shared.follow)
            await until(lambda store=store: store.changes.live, "changes are told")
            nodes.append(node)
        gateway, worker = nodes
        medium = await gateway.hears(GROUP)
        assert await worker.media.read(GROUP, medium.path) == CONTENT
        await gateway.media.forget_chat(GROUP)
        await until(lambda: worker.files() == [], "the worker deletes its copy")
