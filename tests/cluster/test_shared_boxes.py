"""The files of a chat's boxes follow the chat to another worker: in a folder, and on a real NATS
server."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.agent.turn.boxes import ChatBoxes, TurnBox
from nekro_core.chat import ChatKey
from nekro_core.cluster.box_erasures import BoxErasures
from nekro_core.cluster.box_storage import BOXES, SharedBoxStorage
from nekro_core.cluster.errors import ClusterUnavailable
from nekro_core.cluster.local_objects import LocalObjects
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.nats_objects import NatsObjects
from nekro_core.cluster.objects import OBJECT_BYTES, ObjectStore
from nekro_core.cluster.shared_media import MEDIA
from nekro_core.cluster.unused_objects import UnusedObjects
from nekro_core.plugins.authoring.host_files import IN_USE_S
from nekro_core.sandbox.box import BackendUnavailable
from nekro_core.sandbox.named import FolderStorage
from nekro_core.sandbox.settings import SandboxSettings
from nekro_core.store import Ownership, Store, StoreSettings, StoreUnavailable, writing_as
from nekro_core.store.changes import ChangeTopic
from tests.peers.nats import NatsServer
from tests.peers.postgres import PostgresServer
from tests.sandbox.named.memory_boxes import Clock, MemorySource

from .conformance import until

GROUP = ChatKey.parse("fake-group_1")
OTHER = ChatKey.parse("fake-group_2")
NOTE = "/home/user/note.txt"
WORDS = b"the vermilion heron stands in the reeds"


@dataclass
class Worker:
    """A worker with a folder of its own. ``owned`` is its ownership of the partition of all
    chats."""

    name: str
    store: Store
    source: MemorySource
    boxes: ChatBoxes
    storage: SharedBoxStorage
    erasures: BoxErasures
    folder: Path
    owned: Ownership

    async def owns_again(self) -> None:
        self.owned = await self.store.partitions.take(0, self.name)

    async def runs(self, chat_key: ChatKey, **files: bytes) -> None:
        """Run code that writes files, in a turn that is not over."""
        with writing_as(self.owned):
            turn = TurnBox(self.boxes, chat_key)
            box = await turn.open()
            turn.has_run = True
            for name, data in files.items():
                await box.box.write_file(f"/home/user/{name}", data)
            await turn.save_run()

    async def turn(self, chat_key: ChatKey, **files: bytes) -> None:
        """Run a turn whose code writes files."""
        with writing_as(self.owned):
            turn = TurnBox(self.boxes, chat_key)
            box = await turn.open()
            turn.has_run = True
            for name, data in files.items():
                await box.box.write_file(f"/home/user/{name}", data)
            await self.boxes.close(chat_key, box, changed=True)

    async def reads(self, chat_key: ChatKey) -> dict[str, bytes]:
        """The files of the chat's box, as a turn of this worker sees them."""
        with writing_as(self.owned):
            box = await self.boxes.open(chat_key)
            found = dict(box.box.files)  # type: ignore[attr-defined]  # a `MemoryBox`
            await self.boxes.close(chat_key, box, changed=False)
        return {path.rpartition("/")[2]: data for path, data in found.items()}

    def archives(self) -> list[str]:
        return sorted(path.name for path in self.folder.rglob("*") if ".tar" in path.name)


async def worker_on(
    store: Store, objects: ObjectStore, folder: Path, sandbox: SandboxSettings | None = None
) -> Worker:
    """Make a worker that has just become the owner of all chats."""
    storages = []

    def shared(files: FolderStorage) -> SharedBoxStorage:
        storages.append(SharedBoxStorage(files, store, objects))
        return storages[0]

    source = MemorySource()
    boxes = ChatBoxes(
        source, folder, AgentSettings(), clock=Clock(), sandbox=sandbox, storage=shared
    )
    (storage,) = storages
    erasures = BoxErasures(
        store.box_files, storage, boxes.named, folder, folder.with_name("plugin_files")
    )
    owned = await store.partitions.take(0, folder.name)
    return Worker(folder.name, store, source, boxes, storage, erasures, folder, owned)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as store:
        await store.partitions.prepare(1)
        yield store


class SharedBoxContract:
    """The tests of shared boxes. The fixture ``objects`` must give an object store."""

    async def test_a_process_that_starts_or_was_away_deletes_the_copies_of_files_that_no_call_needs(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        copy = tmp_path / "plugin_files" / GROUP.file_name / "shared" / "note.txt"
        copy.parent.mkdir(parents=True)
        copy.write_bytes(WORDS)
        ada = await worker_on(store, objects, tmp_path / "ada")
        await ada.erasures.follow("")  # The process starts.
        assert not copy.exists()
        copy.write_bytes(WORDS)
        await ada.erasures.follow("")  # It was away, and a call that runs may need the copy.
        assert copy.exists()
        long_ago = time.time() - IN_USE_S - 1
        os.utime(copy, (long_ago, long_ago))
        await ada.erasures.follow("")
        assert not copy.exists()

    async def test_a_box_wakes_with_its_files_after_its_worker_was_killed(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        ada = await worker_on(store, objects, tmp_path / "ada")
        await ada.turn(GROUP, first=b"1")
        await ada.runs(GROUP, second=b"2")  # Its turn is not over: the worker is killed now.
        await ada.runs(GROUP, third=b"3")
        bob = await worker_on(store, objects, tmp_path / "bob")
        assert await bob.reads(GROUP) == {"first": b"1", "second": b"2", "third": b"3"}
        assert await bob.reads(OTHER) == {}
        await bob.turn(GROUP, fourth=b"4")
        await ada.owns_again()
        assert (await ada.reads(GROUP)).keys() == {"first", "second", "third", "fourth"}

    async def test_an_old_owner_that_does_not_know_of_the_new_one_does_not_replace_newer_files(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        ada = await worker_on(store, objects, tmp_path / "ada")
        await ada.turn(GROUP, note=b"old")
        bob = await worker_on(store, objects, tmp_path / "bob")
        await bob.turn(GROUP, note=b"new")
        stored = await objects.names(BOXES)
        await ada.turn(GROUP, note=b"older still", more=b"x")
        await ada.boxes.named.look()
        assert ada.source.living == []
        assert await objects.names(BOXES) == stored
        assert await bob.reads(GROUP) == {"note": b"new"}
        await ada.owns_again()
        assert await ada.reads(GROUP) == {"note": b"new"}

    async def test_a_save_stores_only_the_files_that_have_changed(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        ada = await worker_on(store, objects, tmp_path / "ada")
        await ada.turn(GROUP, large=bytes(500_000))
        (first,) = await store.box_files.of_chat(GROUP)
        assert first.epoch == ada.owned.epoch
        before = set(await objects.names(BOXES))
        await ada.turn(GROUP)  # Nothing is written.
        assert set(await objects.names(BOXES)) == before
        await ada.turn(GROUP, small=b"x")
        (second,) = await store.box_files.of_chat(GROUP)
        (new,) = set(await objects.names(BOXES)) - before
        assert await objects.fetch(new, tmp_path / "new") < 20_000
        assert second.size - first.size < 20_000
        bob = await worker_on(store, objects, tmp_path / "bob")
        assert await bob.reads(GROUP) == {"large": bytes(500_000), "small": b"x"}

    async def test_many_changes_become_one_archive_and_old_objects_are_deleted(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        ada = await worker_on(store, objects, tmp_path / "ada")
        for number in range(40):
            await ada.turn(GROUP, count=b"%d" % number, **{f"file{number}": b"x" * 2000})
        assert len(await objects.names(BOXES)) <= 17
        bob = await worker_on(store, objects, tmp_path / "bob")
        found = await bob.reads(GROUP)
        assert len(found) == 41
        assert found["count"] == b"39"

    async def test_an_erased_chat_has_no_objects_and_no_copies(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        ada = await worker_on(store, objects, tmp_path / "ada")
        await ada.turn(GROUP, note=WORDS)
        await ada.turn(OTHER, note=b"stays")
        bob = await worker_on(store, objects, tmp_path / "bob")
        assert await bob.reads(GROUP) == {"note": WORDS}
        with writing_as(bob.owned):
            await bob.boxes.destroy(GROUP)
        copies = tmp_path / "plugin_files"
        for chat_key in (GROUP, OTHER):
            (copies / chat_key.file_name).mkdir(parents=True)
            (copies / chat_key.file_name / "note").write_bytes(WORDS)
        await ada.erasures.follow(f"another {GROUP}")
        assert [each.name for each in copies.iterdir()] == [OTHER.file_name]
        assert len(await objects.names(BOXES)) == 1
        assert await store.box_files.of_chat(GROUP) == []
        for worker in (ada, bob):
            assert not (worker.folder / GROUP.file_name).exists()
        assert await bob.reads(GROUP) == {}
        assert await bob.reads(OTHER) == {"note": b"stays"}

    async def test_an_erasure_by_another_process_ends_the_owners_running_boxes(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        eraser = await worker_on(store, objects, tmp_path / "eraser")
        ada = await worker_on(store, objects, tmp_path / "ada")
        await ada.turn(GROUP, note=WORDS)
        await ada.turn(OTHER, note=b"stays")
        with writing_as(ada.owned):
            unsaved, _ = await ada.boxes.named.of(str(GROUP)).take("second")
            await unsaved.box.write_file(NOTE, WORDS)
        with writing_as(None):
            await eraser.boxes.destroy(GROUP)
        await ada.erasures.follow(f"another {GROUP}")
        assert len(ada.source.living) == 1
        assert await store.box_files.of_chat(GROUP) == []
        assert len(await objects.names(BOXES)) == 1
        assert await ada.reads(OTHER) == {"note": b"stays"}

    async def test_a_process_that_was_away_deletes_its_copies_when_it_is_back(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        ada = await worker_on(store, objects, tmp_path / "ada")
        await ada.turn(GROUP, note=WORDS)
        await ada.turn(OTHER, note=b"stays")
        bob = await worker_on(store, objects, tmp_path / "bob")
        with writing_as(bob.owned):
            await bob.boxes.destroy(GROUP)
        again = await worker_on(store, objects, tmp_path / "ada")
        await again.erasures.follow("")
        assert not (again.folder / GROUP.file_name).exists()
        assert await again.reads(OTHER) == {"note": b"stays"}

    async def test_a_box_whose_objects_are_missing_starts_without_files(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        ada = await worker_on(store, objects, tmp_path / "ada")
        await ada.turn(GROUP, note=b"x")
        for name in await objects.names(BOXES):
            await objects.delete(name)
        bob = await worker_on(store, objects, tmp_path / "bob")
        assert await bob.reads(GROUP) == {}
        await bob.turn(GROUP, note=b"y")
        cid = await worker_on(store, objects, tmp_path / "cid")
        assert await cid.reads(GROUP) == {"note": b"y"}

    async def test_boxes_of_a_bot_that_ran_alone_are_shared_at_their_first_save(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        alone = ChatBoxes(MemorySource(), tmp_path / "ada", AgentSettings(), clock=Clock())
        box = await alone.open(GROUP)
        await box.box.write_file(NOTE, WORDS)
        await alone.close(GROUP, box, changed=True)
        await alone.aclose()
        ada = await worker_on(store, objects, tmp_path / "ada")
        await ada.erasures.follow("")
        assert await ada.reads(GROUP) == {"note.txt": WORDS}
        await ada.turn(GROUP)
        bob = await worker_on(store, objects, tmp_path / "bob")
        assert await bob.reads(GROUP) == {"note.txt": WORDS}

    async def test_an_object_that_nothing_refers_to_is_deleted_by_the_second_sweep(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        ada = await worker_on(store, objects, tmp_path / "ada")
        await ada.turn(GROUP, note=b"1")
        used = await objects.names()
        left = tmp_path / "left"
        left.write_bytes(WORDS)
        await objects.put(f"{BOXES}0/left-by-a-killed-worker", left)
        await objects.put(f"{MEDIA}0/left-by-a-killed-gateway.png", left)
        await objects.put("outgoing/a", left)
        sweep = UnusedObjects(store, objects)
        assert await sweep.run_once() == 0
        await objects.put("outgoing/b", left)
        assert await sweep.run_once() == 3
        assert await objects.names() == [*used, "outgoing/b"]

    async def test_a_handed_over_box_is_saved_and_ends(
        self, store: Store, objects: ObjectStore, tmp_path: Path
    ) -> None:
        ada = await worker_on(store, objects, tmp_path / "ada")
        await ada.turn(GROUP, note=b"1")
        await ada.turn(OTHER, note=b"2")
        with writing_as(ada.owned):
            async with ada.boxes.named.of(str(GROUP)).use() as used:
                await used.box.write_file("/home/user/background", b"3")
            await ada.boxes.hand_over(lambda chat_key: chat_key == GROUP)
        assert len(ada.source.living) == 1
        assert not (ada.folder / GROUP.file_name).exists()
        assert (ada.folder / OTHER.file_name).exists()
        bob = await worker_on(store, objects, tmp_path / "bob")
        assert await bob.reads(GROUP) == {"note": b"1", "background": b"3"}


class TestInAFolder(SharedBoxContract):
    @pytest.fixture
    def objects(self, tmp_path: Path) -> LocalObjects:
        return LocalObjects(tmp_path / "objects")


@pytest.mark.long
class TestOnNats(SharedBoxContract):
    @pytest.fixture
    async def objects(self, connection: NatsConnection) -> NatsObjects:
        return await NatsObjects.open(connection)


class UnreachableObjects(LocalObjects):
    """An object store that the test can make unreachable."""

    away = False

    async def put(self, name: str, source: Path) -> None:
        if self.away:
            raise ClusterUnavailable("NATS does not answer")
        await super().put(name, source)

    async def fetch(self, name: str, target: Path, *, most_bytes: int = OBJECT_BYTES) -> int:
        if self.away:
            raise ClusterUnavailable("NATS does not answer")
        return await super().fetch(name, target, most_bytes=most_bytes)


async def test_files_that_could_not_be_stored_are_stored_with_the_next_save(
    store: Store, tmp_path: Path
) -> None:
    objects = UnreachableObjects(tmp_path / "objects")
    ada = await worker_on(store, objects, tmp_path / "ada")
    await ada.turn(GROUP, first=b"1")
    objects.away = True
    await ada.turn(GROUP, second=b"2")
    await ada.turn(GROUP, third=b"3")
    objects.away = False
    await ada.turn(GROUP, fourth=b"4")
    bob = await worker_on(store, objects, tmp_path / "bob")
    assert await bob.reads(GROUP) == {
        "first": b"1",
        "second": b"2",
        "third": b"3",
        "fourth": b"4",
    }


async def test_the_copy_of_another_box_is_deleted_to_make_room_for_the_files_of_a_box(
    store: Store, tmp_path: Path
) -> None:
    objects = LocalObjects(tmp_path / "objects")
    bob = await worker_on(store, objects, tmp_path / "bob")
    await bob.turn(OTHER, large=bytes(1_500_000))
    ada = await worker_on(store, objects, tmp_path / "ada")
    await ada.turn(GROUP, large=bytes(1_500_000))
    small = SandboxSettings(total_stored_mb=2)
    again = await worker_on(store, objects, tmp_path / "ada", small)
    assert await again.reads(OTHER) == {"large": bytes(1_500_000)}
    assert not (again.folder / GROUP.file_name).exists()


async def test_no_code_runs_while_the_files_cannot_be_fetched(store: Store, tmp_path: Path) -> None:
    """A run without the files could replace them by fewer files."""
    objects = UnreachableObjects(tmp_path / "objects")
    ada = await worker_on(store, objects, tmp_path / "ada")
    await ada.turn(GROUP, first=b"1")
    bob = await worker_on(store, objects, tmp_path / "bob")
    objects.away = True
    with pytest.raises(BackendUnavailable, match="cannot be read now"):
        await bob.reads(GROUP)
    objects.away = False
    assert await bob.reads(GROUP) == {"first": b"1"}


class RestartingRows:
    """The store's rows of boxes. The database server answers neither the first reading of a chat's
    list of boxes nor the first reading of one box."""

    def __init__(self, store: Store) -> None:
        self._rows = store.box_files
        self.refused: list[str] = []

    def __getattr__(self, name: str) -> Any:
        read = getattr(self._rows, name)
        if name not in ("of_chat", "get") or name in self.refused:
            return read

        async def refuse(*_: Any) -> None:
            self.refused.append(name)
            raise StoreUnavailable("the database server is starting")

        return refuse


async def test_a_turn_waits_for_its_box_while_the_database_server_starts_again(
    store: Store, tmp_path: Path
) -> None:
    objects = LocalObjects(tmp_path / "objects")
    ada = await worker_on(store, objects, tmp_path / "ada")
    await ada.turn(GROUP, first=b"1")
    rows = RestartingRows(store)
    store.box_files = rows  # type: ignore[assignment]
    bob = await worker_on(store, objects, tmp_path / "bob")
    assert await bob.reads(GROUP) == {"first": b"1"}
    assert rows.refused == ["of_chat", "get"]


@pytest.mark.long
async def test_erased_files_are_not_in_the_files_of_nats(
    nats_server: NatsServer, connection: NatsConnection, store: Store, tmp_path: Path
) -> None:
    objects = await NatsObjects.open(connection)
    ada = await worker_on(store, objects, tmp_path / "ada")
    await ada.turn(GROUP, note=WORDS * 5000)
    await ada.turn(GROUP, more=WORDS)
    with writing_as(ada.owned):
        await ada.boxes.destroy(GROUP)
    nats_server.stop()
    assert not nats_server.holds(WORDS)
    assert not nats_server.holds(b"fake-group")


@pytest.mark.long
async def test_a_worker_hears_of_an_erasure_by_another_process(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    database, objects = await postgres.database(), LocalObjects(tmp_path / "objects")
    async with AsyncExitStack() as stack:
        workers = []
        for name in ("gateway", "ada"):
            store = await stack.enter_async_context(Store.open(database, StoreSettings(node=name)))
            await store.partitions.prepare(1)
            worker = await worker_on(store, objects, tmp_path / name)
            store.changes.listen(ChangeTopic.BOX_FILES, worker.erasures.follow)
            await until(lambda store=store: store.changes.live, "changes are told")
            workers.append(worker)
        gateway, ada = workers
        await ada.turn(GROUP, note=WORDS)
        await gateway.boxes.destroy(GROUP)
        await until(lambda: ada.source.living == [], "the running box ends")
        await until(lambda: ada.archives() == [], "its files are deleted")
        assert await objects.names(BOXES) == []
        assert await ada.reads(GROUP) == {}
