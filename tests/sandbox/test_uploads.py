"""The host makes the folder of a box's uploads, fills it, and limits its size."""

import os
from pathlib import Path

import anyio
import pytest

from nekro_core.sandbox.box import Backend, BoxFileError
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.jail.uploads import UploadsFolder
from nekro_core.sandbox.settings import SandboxSettings
from nekro_core.sandbox.uploads import BoxUploads, UploadQuota
from tests.sandbox.conftest import SMALL


async def test_a_box_can_enter_folders_made_with_a_strict_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        uploads = UploadsFolder.make(
            tmp_path / "box", group=None, held=BoxUploads(1000, UploadQuota(1000))
        )
        await uploads.write("/app/uploads/a/b/file", b"text")
    finally:
        os.umask(before)
    inner = [tmp_path / "box" / "a", tmp_path / "box" / "a" / "b"]
    assert [oct(path.stat().st_mode & 0o777) for path in inner] == ["0o755", "0o755"]
    assert oct((inner[1] / "file").stat().st_mode & 0o777) == "0o444"


def folder(path: Path, room: UploadQuota, limit: int = 1000) -> UploadsFolder:
    return UploadsFolder.make(path, group=None, held=BoxUploads(limit, room))


async def test_the_uploads_of_all_boxes_together_are_limited(tmp_path: Path) -> None:
    room = UploadQuota(1500)
    one, other = folder(tmp_path / "one", room), folder(tmp_path / "other", room)
    await one.write("/app/uploads/a", b"x" * 900)
    await other.write("/app/uploads/a", b"x" * 600)
    with pytest.raises(BoxFileError, match="all boxes together hold 1500 bytes at most, 1500"):
        await other.write("/app/uploads/b", b"x")
    await one.write("/app/uploads/a", b"x" * 100)  # this replaces the file by a smaller one
    await other.write("/app/uploads/b", b"x" * 300)
    with pytest.raises(BoxFileError, match="uploads of a box hold 1000 bytes at most"):
        await other.write("/app/uploads/c", b"x" * 101)
    other.remove()
    other.remove()
    assert room.used == 100
    one.remove()
    assert room.used == 0


async def test_a_failed_upload_uses_no_quota(tmp_path: Path) -> None:
    room = UploadQuota(1000)
    box = folder(tmp_path / "box", room)
    await box.write("/app/uploads/a/b", b"x" * 10)
    with pytest.raises(BoxFileError, match="is a folder"):
        await box.write("/app/uploads/a", b"x" * 500)
    with pytest.raises(BoxFileError, match="a part of"):
        await box.write("/app/uploads/a/b/c", b"x" * 500)
    assert room.used == 10
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["b"]


@pytest.mark.jail
async def test_boxes_of_the_jail_share_the_upload_quota_and_free_it() -> None:
    settings = SandboxSettings(uploads_mb=2, pool_size=0)
    async with anyio.create_task_group() as tasks:
        backend = JailBackend(settings, tasks)
        try:
            await fill(backend)
        finally:
            await backend.aclose()
            tasks.cancel_scope.cancel()


async def fill(backend: Backend) -> None:
    """Check the limit of 2 MB for the uploads of all boxes together. One box uses most of it, so
    another box is refused until the first one is destroyed."""
    one, other = await backend.create(SMALL), await backend.create(SMALL)
    await one.write_file("/app/uploads/a", b"x" * (3 << 19))
    with pytest.raises(BoxFileError, match="the uploads of all boxes together hold 2097152"):
        await other.write_file("/app/uploads/a", b"x" * (1 << 20))
    await one.destroy()
    await other.write_file("/app/uploads/a", b"x" * (1 << 20))
    assert len(await other.read_file("/app/uploads/a", limit=1 << 20)) == 1 << 20
    await other.destroy()
