"""A save stores only the changed files, as a layer. All layers together give the box's files."""

import errno
import io
import secrets
import tarfile
import tempfile
from contextvars import Context
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nekro_core.sandbox.named.layers import InvalidArchive, layer_head, merge, read_head
from nekro_core.sandbox.named.storage import BoxRecord, FolderStorage, SavedState
from tests.sandbox.named.memory_boxes import MemoryBox

NAMES = [f"/home/user/{name}" for name in ("a", "b", "ä" * 60, "d/" * 60 + "e")]
CHANGES = st.dictionaries(st.sampled_from(NAMES), st.none() | st.binary(max_size=2000), max_size=4)


def change(box: MemoryBox, wanted: dict[str, bytes | None]) -> None:
    for name, data in wanted.items():
        if data is None:
            box.files.pop(name, None)
        else:
            box.files[name] = data


@given(st.lists(st.tuples(CHANGES, st.sampled_from(["save", "fail", "wake"])), max_size=25))
@settings(max_examples=30, deadline=None)
def test_any_changes_are_restored(steps: list[tuple[dict[str, bytes | None], str]]) -> None:
    async def live(folder: Path) -> None:
        storage, box, saved = FolderStorage(folder), MemoryBox("1", "python"), SavedState()
        for wanted, what in steps:
            change(box, wanted)
            if what == "fail":
                await box.export_changes(saved.state)  # the save fails, as on a full disk
                continue
            saved = await storage.save("lin", "x", box, saved)
            woken = MemoryBox("2", "python")
            restored = await storage.restore("lin", "x", woken)
            assert woken.files == box.files
            if what == "wake":
                box, saved = woken, restored

    with tempfile.TemporaryDirectory() as folder:
        Context().run(anyio.run, live, Path(folder))


async def test_a_small_change_is_stored_in_a_small_file(tmp_path: Path) -> None:
    storage, box, saved = FolderStorage(tmp_path), MemoryBox("1", "python"), SavedState()
    box.files = {f"/home/user/{number}": bytes(100_000) for number in range(20)}
    saved = await storage.save("lin", "x", box, saved)
    folder = tmp_path / "lin"
    for number in range(40):
        box.files["/home/user/log"] = b"line\n" * number
        saved = await storage.save("lin", "x", box, saved)
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
        assert sizes.pop("x.tar") > 2_000_000
        assert max(sizes.values(), default=0) < 20_000
        assert len(sizes) <= 16
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert await storage.save("lin", "x", box, saved) != saved
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    await storage.forget("lin", "x")
    assert not folder.exists()


async def test_layers_of_a_replaced_archive_are_not_used(tmp_path: Path) -> None:
    """The process was killed between storing a new archive and deleting the old layers."""
    storage, box = FolderStorage(tmp_path), MemoryBox("1", "python")
    box.files = {NAMES[0]: b"old" * 1000}
    saved = await storage.save("lin", "x", box, SavedState())
    box.files[NAMES[1]] = b"old"
    await storage.save("lin", "x", box, saved)
    old_layer = (tmp_path / "lin" / "x.tar+1").read_bytes()
    box.files = {NAMES[0]: b"new"}
    await storage.save("lin", "x", box, SavedState(mark="another"))
    (tmp_path / "lin" / "x.tar+1").write_bytes(old_layer)
    woken = MemoryBox("2", "python")
    await storage.restore("lin", "x", woken)
    assert woken.files == {NAMES[0]: b"new"}
    assert dict(await storage.records("lin")) == {"x": None}


async def test_an_archive_of_an_earlier_version_is_read_and_replaced(tmp_path: Path) -> None:
    storage, box = FolderStorage(tmp_path), MemoryBox("1", "python")
    box.files = {NAMES[0]: b"milk"}
    (tmp_path / "lin").mkdir()
    (tmp_path / "lin" / "x.tar").write_bytes((await box.export_changes()).archive)
    await storage.remember("lin", "x", BoxRecord(image="python", sleep_after_s=5))
    woken = MemoryBox("2", "python")
    saved = await storage.restore("lin", "x", woken)
    assert woken.files == box.files
    woken.files = {}
    await storage.save("lin", "x", woken, saved)
    last = MemoryBox("3", "python")
    await storage.restore("lin", "x", last)
    assert last.files == {}


@pytest.mark.parametrize("noise", [b"", b"no archive", bytes(5000), b"x" * 511 + b"\xff" * 9000])
def test_an_invalid_layer_is_refused(noise: bytes) -> None:
    assert read_head(noise) == ("", ())
    whole = layer_head("m") + _tar({"a": b"x"})
    try:
        merged = merge([whole, layer_head("m", ["gone"]) + noise])
    except InvalidArchive:
        return
    with tarfile.open(fileobj=io.BytesIO(merged)) as tar:
        assert "a" in tar.getnames()


def test_an_entry_that_claims_to_be_huge_is_copied_unchanged() -> None:
    """Only an attacker would write such an entry: it has a few bytes and claims to be a sparse file
    of 4 EiB."""
    entry = tarfile.TarInfo("sparse")
    entry.pax_headers = {"GNU.sparse.size": str(2**62), "GNU.sparse.map": f"{2**61},1"}
    entry.size = 1
    raw = entry.tobuf(tarfile.PAX_FORMAT) + b"x" + bytes(511) + bytes(1024)
    merged = merge([layer_head("m") + _tar({"a": b"x"}), layer_head("m") + raw])
    assert len(merged) < 10_000


def _tar(files: dict[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return archive.getvalue()


async def test_the_stored_files_of_all_boxes_are_limited(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path, most_bytes=80_000)
    boxes = [MemoryBox(str(number), "python") for number in range(3)]
    for box in boxes:
        await box.write_file("big", secrets.token_bytes(20_000))
    saved = await storage.save("lin", "a", boxes[0], SavedState())
    await storage.save("mei", "b", boxes[1], SavedState())
    with pytest.raises(OSError, match="more than 0 MB together") as refused:
        await storage.save("tom", "c", boxes[2], SavedState())
    assert refused.value.errno == errno.EDQUOT
    # this replaces the archive of the same box
    await storage.save("lin", "a", boxes[0], replace(saved, state=""))
    assert await storage.records("tom") == {}
    await storage.forget("mei", "b")
    await storage.save("tom", "c", boxes[2], SavedState())
    again = FolderStorage(tmp_path, most_bytes=80_000)  # this is the storage after a restart
    with pytest.raises(OSError, match="together"):
        await again.save("mei", "b", boxes[1], SavedState())
