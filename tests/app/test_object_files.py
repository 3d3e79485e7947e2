"""A backup of a cluster has the media and the files of boxes that are in the object store. It is
restored to one process, and to another cluster with an empty object store."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.agent.turn.boxes import ChatBoxes
from nekro_core.app.object_files import ClusterObjectFiles, object_files_of
from nekro_core.app.restore import restore_backup
from nekro_core.app.settings import Settings
from nekro_core.backup.errors import BackupRefused
from nekro_core.backup.make import BackupMade, BackupSource, make_backup
from nekro_core.backup.progress import BackupWork, run_in_thread
from nekro_core.chat import ChatKey, File, Image, Media
from nekro_core.cluster.box_storage import BOXES
from nekro_core.cluster.errors import ClusterUnavailable
from nekro_core.cluster.local_objects import LocalObjects
from nekro_core.cluster.objects import OBJECT_BYTES, ObjectStore
from nekro_core.cluster.restored_files import share_restored
from nekro_core.cluster.shared_media import MEDIA
from nekro_core.store import Store
from tests.cluster.test_shared_boxes import GROUP, OTHER, Worker, worker_on
from tests.cluster.test_shared_media import CONTENT, node_on
from tests.sandbox.named.memory_boxes import Clock, MemorySource
from tests.store.conftest import say

WORDS = b"the vermilion heron stands in the reeds"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    (tmp_path / "gateway").mkdir()
    async with Store.open(url_of(tmp_path / "gateway")) as store:
        await store.partitions.prepare(1)
        yield store


@pytest.fixture
def objects(tmp_path: Path) -> LocalObjects:
    return LocalObjects(tmp_path / "objects")


def url_of(data: Path) -> str:
    return f"sqlite://{data}/nekro.sqlite3"


async def heard(store: Store, chat_key: ChatKey, *media: Media) -> None:
    """Store a message of a person with files."""
    await say(store, key=chat_key, segments=tuple(File(media=each) for each in media))


def files_of(store: Store, objects: ObjectStore, data: Path) -> ClusterObjectFiles:
    found = object_files_of(store, objects, data)
    assert found is not None
    return found


async def backup_of(store: Store, objects: ObjectStore, folder: Path) -> BackupMade:
    """Make a backup in the gateway's data folder, in ``folder/gateway``."""
    data = folder / "gateway"
    source = BackupSource(
        data=data, database_url=url_of(data), objects=files_of(store, objects, data)
    )
    work = BackupWork()
    return await run_in_thread(work, partial(make_backup, source, folder / "b.zip", work))


async def restored(folder: Path) -> Path:
    """Restore the backup for one process, and return the data folder."""
    settings = Settings(_env_file=None)  # type: ignore[call-arg]
    await restore_backup(settings, folder / "b.zip", folder / "new")
    return folder / "new"


@asynccontextmanager
async def boxes_in(data: Path) -> AsyncIterator[ChatBoxes]:
    """The boxes of a bot that runs as one process."""
    boxes = ChatBoxes(MemorySource(), data / "boxes", AgentSettings(), clock=Clock())
    yield boxes
    await boxes.aclose()


async def read_in_one_process(data: Path, chat_key: ChatKey) -> dict[str, bytes]:
    async with boxes_in(data) as boxes:
        box = await boxes.open(chat_key)
        found = dict(box.box.files)  # type: ignore[attr-defined]  # a `MemoryBox`
        await boxes.close(chat_key, box, changed=False)
    return {path.rpartition("/")[2]: content for path, content in found.items()}


async def test_one_process_goes_on_with_the_media_and_boxes_of_a_cluster(
    store: Store, objects: LocalObjects, tmp_path: Path
) -> None:
    """A gateway makes the backup. A worker has the box, and another gateway received the file."""
    ada = await worker_on(store, objects, tmp_path / "ada")
    other = await node_on(store, objects, tmp_path / "other", wall=time.time)
    medium = await other.hears(GROUP)
    await heard(store, GROUP, medium)
    await ada.turn(GROUP, first=b"1")
    await ada.turn(GROUP, second=b"2")
    made = await backup_of(store, objects, tmp_path)
    assert made.manifest.left_out[:-1] == ()
    data = await restored(tmp_path)
    assert await read_in_one_process(data, GROUP) == {"first": b"1", "second": b"2"}
    path = data / "uploads" / GROUP.file_name / Path(medium.path).name
    assert path.read_bytes() == CONTENT
    async with Store.open(url_of(data)) as again:
        assert await again.media_files.size() == 0
        assert await again.box_files.names() == []


async def test_another_cluster_goes_on_with_the_media_and_boxes(
    store: Store, objects: LocalObjects, tmp_path: Path
) -> None:
    ada = await worker_on(store, objects, tmp_path / "ada")
    gateway = await node_on(store, objects, tmp_path / "gateway", wall=time.time)
    medium = await gateway.hears(GROUP)
    await heard(store, GROUP, medium)
    await heard(store, OTHER)
    await ada.turn(GROUP, first=b"1")
    await ada.turn(GROUP, second=b"2")
    await ada.turn(OTHER, third=b"3")
    rows = {each.object_name: each for each in await store.media_files.page("")}
    await backup_of(store, objects, tmp_path)
    data = await restored(tmp_path)
    empty = LocalObjects(tmp_path / "empty")
    async with Store.open(url_of(data)) as again:
        shared = await share_restored(again, empty, data, node="gateway")
        assert (shared.media, shared.chats_with_boxes) == (1, 2)
        (row,) = await again.media_files.page("")
        assert row.ready
        assert row.sha256 == rows[row.object_name].sha256
        assert row.used == pytest.approx(rows[row.object_name].used, abs=2.0)
        worker = await node_on(again, empty, tmp_path / "worker", wall=time.time)
        assert await worker.media.read(GROUP, medium.path) == CONTENT
        bob = await worker_on(again, empty, tmp_path / "bob")
        assert await bob.reads(GROUP) == {"first": b"1", "second": b"2"}
        assert await bob.reads(OTHER) == {"third": b"3"}
        # The next save is an archive of changes, as before.
        await bob.turn(GROUP, fourth=b"4")
        eva = await worker_on(again, empty, tmp_path / "eva")
        assert set(await eva.reads(GROUP)) == {"first", "second", "fourth"}


async def test_files_that_were_erased_while_the_backup_was_made_are_not_in_it(
    store: Store, objects: LocalObjects, tmp_path: Path
) -> None:
    ada = await worker_on(store, objects, tmp_path / "ada")
    gateway = await node_on(store, objects, tmp_path / "other", wall=time.time)
    await gateway.hears(GROUP, WORDS)
    await ada.turn(GROUP, note=WORDS)
    await ada.turn(OTHER, note=b"stays")
    files = files_of(store, objects, tmp_path / "gateway")

    def fetched() -> list[str]:
        found = []
        for each in files.fetch(tmp_path, lambda _: False, []):
            for file in each:
                found.append(file.path)
                file.file.unlink()
        return found

    # This reads the list of boxes, before the files are erased.
    covered = partial(files.covers, f"boxes/{GROUP.file_name}/default.tar")
    assert await run_in_thread(BackupWork(), covered)
    await gateway.shared.forget_chat(GROUP)
    await ada.boxes.destroy(GROUP)
    paths = await run_in_thread(BackupWork(), fetched)
    assert {path.rpartition("/")[0] for path in paths} == {f"boxes/{OTHER.file_name}"}


async def test_a_backup_names_the_media_and_boxes_whose_objects_are_missing(
    store: Store, objects: LocalObjects, tmp_path: Path
) -> None:
    ada = await worker_on(store, objects, tmp_path / "ada")
    gateway = await node_on(store, objects, tmp_path / "other", wall=time.time)
    await gateway.hears(GROUP, WORDS)
    await gateway.hears(GROUP, CONTENT)
    await ada.turn(GROUP, note=b"x")
    for name in (*await objects.names(BOXES), (await objects.names(MEDIA))[0]):
        await objects.delete(name)
    made = await backup_of(store, objects, tmp_path)
    said = "\n".join(made.manifest.left_out)
    assert "1 media are not in the object store" in said
    assert f"the box default of {GROUP}" in said
    names = [each.name for each in made.manifest.members]
    assert len([each for each in names if each.startswith("data/uploads/")]) == 1
    assert [each for each in names if each.startswith("data/boxes/")] == []


class SavedMeanwhile(LocalObjects):
    """An object store in which a box is saved again just before its first object is read."""

    worker: Worker | None = None

    async def fetch(self, name: str, target: Path, *, most_bytes: int = OBJECT_BYTES) -> int:
        if (worker := self.worker) is not None:
            self.worker = None
            for number in range(20):  # after 16 archives of changes there is a new one of all files
                await worker.turn(GROUP, **{f"file{number}": b"x"})
        return await super().fetch(name, target, most_bytes=most_bytes)


async def test_a_box_that_is_saved_while_it_is_copied_is_copied_whole(
    store: Store, tmp_path: Path
) -> None:
    objects = SavedMeanwhile(tmp_path / "objects")
    ada = await worker_on(store, objects, tmp_path / "ada")
    await ada.turn(GROUP, note=b"1")
    objects.worker = ada
    made = await backup_of(store, objects, tmp_path)
    assert not [each for each in made.manifest.left_out if "box" in each]
    found = await read_in_one_process(await restored(tmp_path), GROUP)
    assert found.keys() == {"note", *(f"file{number}" for number in range(20))}


class Unreachable(LocalObjects):
    async def fetch(self, name: str, target: Path, *, most_bytes: int = OBJECT_BYTES) -> int:
        raise ClusterUnavailable("NATS does not answer")


async def test_no_backup_is_made_while_the_object_store_is_away(
    store: Store, tmp_path: Path
) -> None:
    objects = Unreachable(tmp_path / "objects")
    ada = await worker_on(store, objects, tmp_path / "ada")
    await ada.turn(GROUP, note=b"1")
    with pytest.raises(BackupRefused, match="NATS does not answer"):
        await backup_of(store, objects, tmp_path)
    assert not (tmp_path / "b.zip").exists()
    assert [each.name for each in tmp_path.iterdir() if "nekro-backup" in each.name] == []


async def test_a_row_of_a_box_that_a_thief_wrote_makes_no_file_outside_of_the_working_folder(
    store: Store, objects: LocalObjects, tmp_path: Path
) -> None:
    ada = await worker_on(store, objects, tmp_path / "ada")
    await ada.turn(GROUP, note=b"1")
    (row,) = await store.box_files.of_chat(GROUP)
    for suffix in ("/../../evil", ".tar/../../evil", ".json"):
        parts = row.parts.replace('".tar"', f'"{suffix}"')
        assert parts != row.parts
        await store.box_files.put(
            type(row)(chat_key=GROUP, name="default", mark=row.mark, parts=parts)
        )
        made = await backup_of(store, objects, tmp_path)
        assert "unexpected names" in "\n".join(made.manifest.left_out)
        (tmp_path / "b.zip").unlink()
    assert not [*tmp_path.rglob("evil*")]


async def test_an_old_copy_of_a_box_in_the_folder_of_the_gateway_is_not_in_the_backup(
    store: Store, objects: LocalObjects, tmp_path: Path
) -> None:
    """The gateway ran as one process before. The box was shared, and a worker changed it."""
    data = tmp_path / "gateway"
    async with boxes_in(data) as boxes:
        for chat_key in (GROUP, OTHER):
            box = await boxes.open(chat_key)
            await box.box.write_file("/home/user/note", b"old")
            await boxes.close(chat_key, box, changed=True)
    ada = await worker_on(store, objects, tmp_path / "ada")
    await ada.turn(GROUP, note=b"new")
    await backup_of(store, objects, tmp_path)
    new = await restored(tmp_path)
    assert await read_in_one_process(new, GROUP) == {"note": b"new"}
    assert await read_in_one_process(new, OTHER) == {"note": b"old"}


async def test_pictures_of_all_processes_are_found_after_a_restore(tmp_path: Path) -> None:
    """A message of a cluster names its media by their paths in the data folder of the process that
    stored it."""
    async with Store.open(url_of(tmp_path)) as store:
        for number, process in enumerate(("one", "two", "three")):
            path = f"/srv/{process}/data/uploads/fake-group_1/{'a' * 32}.png"
            picture = Image(media=Media(path=path, name="a.png", mime="image/png"))
            await say(store, key=GROUP, segments=(picture,), message_id=f"m{number}")
        await store.restored.move_all_media("/new/data")
        found = await store.messages.newest(GROUP, 10)
    paths = {segment.media.path for each in found for segment in each.segments}  # type: ignore[union-attr]
    assert paths == {f"/new/data/uploads/fake-group_1/{'a' * 32}.png"}
