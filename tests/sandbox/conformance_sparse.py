"""Tests of files with holes. The length of such a file is much larger than its data.

Part of `tests.sandbox.conformance`.
"""

import io
import tarfile

import pytest

from nekro_core.sandbox.box import Backend, Box, BoxFileError, StopReason
from tests.sandbox.conformance_archives import box_spec
from tests.sandbox.run_code import play

LONG = 1 << 40

MAKE = f"""
    import os
    os.makedirs("folder/inner", exist_ok=True)
    open("folder/first", "w").write("before")
    with open("folder/holes", "wb") as file:
        file.seek(10**6)
        file.write(b"middle")
        file.truncate({LONG})
    with open("folder/nothing", "wb") as file:
        file.truncate({LONG})
    with open("folder/ends", "wb") as file:
        file.seek(3 * 10**6)
        file.write(b"the end")
    open("folder/inner/last", "w").write("after")
"""

LOOK = """
    import os
    os.chdir({folder!r})
    for name in ("holes", "nothing", "ends"):
        found = os.stat(name)
        print(name, found.st_size, found.st_blocks * 512 < 100_000)
    with open("holes", "rb") as file:
        print(file.read(4))
        file.seek(10**6 - 2)
        print(file.read(10))
    with open("ends", "rb") as file:
        file.seek(3 * 10**6 - 2)
        print(file.read(100))
    print(open("first").read(), open("inner/last").read())
"""

SEEN = f"""\
holes {LONG} True
nothing {LONG} True
ends {3 * 10**6 + 7} True
{bytes(4)!r}
{bytes(2) + b"middle" + bytes(2)!r}
{bytes(2) + b"the end"!r}
before after
"""


class SparseConformance:
    """Needs the fixtures ``backend`` and ``box`` (new for each test)."""

    async def test_files_with_holes_are_stored_without_the_holes(
        self, backend: Backend, box: Box
    ) -> None:
        assert (await play(box, MAKE)).stop is StopReason.FINISHED
        archive = await box.export_files()
        assert len(archive) < 100_000
        with tarfile.open(
            fileobj=io.BytesIO(archive)
        ) as tar:  # other programs can read the archive
            assert tar.getmember("./folder/holes").size == LONG
        other = await backend.create(box_spec(box))
        try:
            await other.import_files(archive)
            assert (await play(other, LOOK.format(folder="folder"))).output == SEEN
        finally:
            await other.destroy()
        assert (await play(box, "print('alive')")).output == "alive\n"

    async def test_a_change_of_a_file_with_holes_is_stored_without_the_holes(
        self, box: Box
    ) -> None:
        assert (await play(box, MAKE)).stop is StopReason.FINISHED
        first = await box.export_changes()
        assert len(first.archive) < 100_000
        code = (
            f"with open('more', 'wb') as file: file.truncate({LONG})\nopen('new', 'w').write('x')"
        )
        assert (await play(box, code)).stop is StopReason.FINISHED
        second = await box.export_changes(first.state)
        with tarfile.open(fileobj=io.BytesIO(second.archive)) as tar:
            assert {"more", "new"} <= set(tar.getnames())
        assert len(second.archive) < 100_000

    async def test_files_with_holes_are_transferred_to_another_box(self, box: Box) -> None:
        assert (await play(box, MAKE)).stop is StopReason.FINISHED
        unpacked = await box.unpack("there", box.pack("folder"))
        assert (unpacked.files, unpacked.skipped) == (5, ())
        assert unpacked.bytes == 2 * LONG + 3 * 10**6 + 7 + len("before") + len("after")
        assert (await play(box, LOOK.format(folder="there"))).output == SEEN
        assert (await box.unpack("alone", box.pack("folder/holes"))).bytes == LONG

    async def test_a_file_with_holes_is_read_like_any_other(self, box: Box) -> None:
        assert (await play(box, MAKE)).stop is StopReason.FINISHED
        with pytest.raises(BoxFileError) as refused:
            await box.read_file("folder/holes", limit=10**6)
        assert refused.value.code == "too_large"
        piece = await box.read_piece("folder/holes", offset=10**6, limit=8)
        assert (piece.data, piece.size) == (b"middle\0\0", LONG)
        assert await box.read_file("folder/ends", limit=4 * 10**6) == bytes(3 * 10**6) + b"the end"

    async def test_a_file_with_many_pieces_and_holes_is_transferred(
        self, backend: Backend, box: Box
    ) -> None:
        code = """
            with open("comb", "wb") as file:
                for place in range(500):
                    file.seek(place * 8192 * 3)
                    file.write(b"%d" % place)
        """
        assert (await play(box, code)).stop is StopReason.FINISHED
        data = await box.read_file("comb", limit=2 * 10**7)
        other = await backend.create(box_spec(box))
        try:
            await other.import_files(await box.export_files())
            assert await other.read_file("comb", limit=2 * 10**7) == data
            await other.unpack("again", box.pack("comb"))
            assert await other.read_file("again", limit=2 * 10**7) == data
        finally:
            await other.destroy()
