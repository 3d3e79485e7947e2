"""Makes boxes in memory, without processes. They have the methods that `NamedBoxes` uses."""

import io
import tarfile
import uuid
from typing import Any

import anyio

from nekro_core.sandbox.box import Box, BoxLost, ImageUnavailable
from nekro_core.sandbox.results import FileChanges


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class MemoryBox:
    """A box whose files are in a dict."""

    def __init__(self, box_id: str, image: str) -> None:
        self.box_id = box_id
        self.image = image
        self.files: dict[str, bytes] = {}
        self.alive = True
        self.idle_bytes = 6
        self.destroyed = False
        self.exports = 0
        self.hold: anyio.Event | None = None
        """If set, an export waits for this event."""
        self._known: dict[str, bytes] = {}
        self._state = ""

    async def write_file(self, path: str, data: bytes, **_: Any) -> int:
        self._must_live()
        self.files[path] = data
        return len(data)

    async def read_file(self, path: str, *, limit: int) -> bytes:
        self._must_live()
        return self.files[path][:limit]

    async def export_changes(self, since: str = "") -> FileChanges:
        self._must_live()
        whole = not since or since != self._state
        known = {} if whole else self._known
        changed = {name: data for name, data in self.files.items() if known.get(name) != data}
        removed = tuple(name.removeprefix("/") for name in known if name not in self.files)
        state = await self.note_files()
        self.exports += 1
        await anyio.sleep(0)
        await anyio.sleep(0)
        if self.hold is not None:
            await self.hold.wait()
        self._must_live()
        return FileChanges(
            state=state,
            whole=whole,
            removed=removed,
            entries=len(changed),
            archive=_archive(changed) if whole or changed else b"",
        )

    async def note_files(self) -> str:
        self._must_live()
        self._known = dict(self.files)
        self._state = uuid.uuid4().hex
        return self._state

    async def import_files(self, archive: bytes) -> None:
        await anyio.sleep(0)
        self._must_live()
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar:
                if member.name.startswith("/"):
                    continue
                opened = tar.extractfile(member)
                assert opened is not None
                self.files[f"/{member.name}"] = opened.read()

    async def destroy(self) -> None:
        self.alive = False
        self.destroyed = True
        await anyio.sleep(0)

    def _must_live(self) -> None:
        if not self.alive:
            raise BoxLost("the box is gone: somebody killed it")


def _archive(files: dict[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(name.removeprefix("/"))
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return archive.getvalue()


class MemorySource:
    """Makes `MemoryBox` objects. As long as ``failing`` has errors, `take` raises the next of
    them."""

    images = ("node:22", "python")
    unavailable = ""
    pool_bytes = 0

    def __init__(self) -> None:
        self.made: list[MemoryBox] = []
        self.failing: list[Exception] = []
        self.pause_s = 0.0

    @property
    def living(self) -> list[MemoryBox]:
        return [box for box in self.made if box.alive]

    async def take(self, image: str = "") -> Box:
        await anyio.sleep(self.pause_s)
        if image not in self.images:
            raise ImageUnavailable(image, self.images)
        if self.failing:
            raise self.failing.pop(0)
        box = MemoryBox(f"box{len(self.made)}", image)
        self.made.append(box)
        return box  # type: ignore[return-value]
