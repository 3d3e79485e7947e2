"""Tests of files in a box, which every box must pass. Part of `tests.sandbox.conformance`."""

import contextlib
import random
import struct
from collections.abc import AsyncIterator

import anyio
import pytest

from nekro_core.sandbox.box import Backend, Box, BoxFileError
from nekro_core.sandbox.results import FileChunk, FileKind, FileStatus
from tests.sandbox.run_code import play

ODD = """
    import os, socket
    os.makedirs("odd/folder")
    os.chdir("odd")
    open("file", "w").write("0123456789")
    os.chmod("file", 0o640)
    os.utime("file", (1.5e9, 1.5e9))
    os.symlink("file", "link")
    os.symlink("nowhere", "dangling")
    os.symlink("/etc/passwd", "link_out")
    os.mkfifo("pipe")
    socket.socket(socket.AF_UNIX).bind("socket")
"""

ENTRY = struct.Struct("!BIqQHH")
FILE, FOLDER, LINK, SKIPPED, END = range(1, 6)


def entry(
    kind: int,
    name: bytes = b"",
    rest: bytes = b"",
    data: bytes = b"",
    *,
    mode: int = 0o644,
    size: int | None = None,
) -> bytes:
    """An entry of an archive in the format of `guest_pack`."""
    size = len(data) if size is None else size
    return ENTRY.pack(kind, mode, 10**18, size, len(name), len(rest)) + name + rest + data


async def one_by_one(data: bytes, size: int = 65536) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


class FileConformance:
    """Needs the fixtures ``backend``, ``box`` (new for each test) and ``used_box`` (shared)."""

    # Pieces

    async def test_the_status_of_a_path_is_returned_without_reading_the_file(
        self, box: Box
    ) -> None:
        assert (await play(box, ODD)).error == ""
        file = FileStatus(kind=FileKind.FILE, size=10, mode=0o640, modified=1.5e9)
        assert await box.status("odd/file") == await box.status("odd/link") == file
        kinds = {}
        for name in ("folder", "link", "dangling", "pipe", "socket"):
            status = await box.status(f"odd/{name}", follow=False)
            kinds[name] = status and status.kind
        assert kinds == {
            "folder": FileKind.DIRECTORY,
            "link": FileKind.LINK,
            "dangling": FileKind.LINK,
            "pipe": FileKind.OTHER,
            "socket": FileKind.OTHER,
        }
        for nothing in ("odd/nothing", "odd/nothing/below", "odd/file/below", "odd/dangling"):
            assert await box.status(nothing) is None
        for outside in ("/etc/passwd", "odd/link_out", "../../etc", "/proc/self/status"):
            with pytest.raises(BoxFileError) as caught:
                await box.status(outside)
            assert caught.value.code == "permission_denied"
        for name, code in (("pipe", "invalid_input"), ("folder", "is_a_directory")):
            for ask in (box.read_piece(f"odd/{name}", limit=1), self._append(box, f"odd/{name}")):
                with pytest.raises(BoxFileError) as caught, anyio.fail_after(30):
                    await ask
                assert caught.value.code == code

    async def _append(self, box: Box, path: str) -> int:
        return await box.write_file(path, b"x", append=True)

    @pytest.mark.parametrize(
        ("offset", "limit", "data"),
        [
            (0, 4, b"0123"),
            (3, 100, b"3456789"),
            (9, 1, b"9"),
            (10, 5, b""),
            (10**30, 5, b""),
            (0, 0, b""),
        ],
    )
    async def test_a_piece_of_a_file_is_read(
        self, used_box: Box, offset: int, limit: int, data: bytes
    ) -> None:
        await used_box.write_file("digits", b"0123456789")
        piece = await used_box.read_piece("digits", offset=offset, limit=limit)
        assert piece == FileChunk(data=data, size=10)

    @pytest.mark.parametrize(("offset", "limit"), [(-1, 1), (0, -1)])
    async def test_a_negative_offset_or_limit_is_refused(
        self, used_box: Box, offset: int, limit: int
    ) -> None:
        with pytest.raises(BoxFileError) as caught:
            await used_box.read_piece("digits", offset=offset, limit=limit)
        assert caught.value.code == "invalid_input"

    async def test_writing_returns_the_size_and_appending_loses_nothing(self, box: Box) -> None:
        assert await box.write_file("d/e/t.txt", "hé".encode()) == 3
        assert await box.write_file("d/e/t.txt", "hé".encode(), append=True) == 6
        assert await box.write_file("d/e/t.txt", b"x") == 1
        assert await box.write_file("/app/uploads/u", b"xy") == 2
        with pytest.raises(BoxFileError):
            await box.write_file("/app/uploads/u", b"xy", append=True)
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                line = b"%02d" % number * 5000 + b"\n"
                tasks.start_soon(lambda data=line: box.write_file("log", data, append=True))
        lines = (await box.read_file("log", limit=10**6)).splitlines()
        assert sorted(line[:2] for line in lines) == [b"%02d" % number for number in range(20)]
        assert all(line == line[:2] * 5000 for line in lines)

    async def test_appending_more_than_the_disk_holds_leaves_the_file_unchanged(
        self, box: Box
    ) -> None:
        await box.write_file("file", b"kept")
        with pytest.raises(BoxFileError) as caught:
            await box.write_file("file", b"x" * 40 * 1024 * 1024, append=True)
        assert caught.value.code == "too_large"
        assert await box.read_file("file", limit=100) == b"kept"

    # Globs

    @pytest.mark.parametrize(
        ("pattern", "found"),
        [
            ("**/*.py", "a.py pkg/b.py pkg/deep/c.py"),
            ("*.py", "a.py"),
            ("*", "$(id) a.py pkg"),
            ("**", "$(id) a.py pkg pkg/b.py pkg/deep pkg/deep/c.py pkg/deep/d.txt pkg/link"),
            ("*/", "pkg"),
            ("**/", "pkg pkg/deep"),
            (".*", ".git .hidden.py"),
            (".git/*", ".git/config.py"),
            ("pkg/**/*.py", "pkg/b.py pkg/deep/c.py"),
            ("**/deep/**", "pkg/deep/c.py pkg/deep/d.txt"),
            ("pkg/**/**/c.py", "pkg/deep/c.py"),
            ("./pkg//b.py", "pkg/b.py"),
            ("pkg/?.p[xy]", "pkg/b.py"),
            ("pkg/[!b].py", ""),
            ("pkg/[", ""),
            ("pkg/link/*.py", "pkg/link/c.py"),
            ("pkg/l*/*", ""),
            ("$(id)", "$(id)"),
            ("`id`", ""),
            ("-rf", ""),
            ("a.py/*", ""),
            ("nope/*", ""),
            ("/home/user/glob/*.py", "/home/user/glob/a.py"),
        ],
    )
    async def test_a_pattern_finds_exactly_the_files_that_it_matches(
        self, used_box: Box, pattern: str, found: str
    ) -> None:
        names = ("a.py", "pkg/b.py", "pkg/deep/c.py", "pkg/deep/d.txt", ".git/config.py")
        for name in (*names, ".hidden.py", "$(id)"):
            await used_box.write_file(f"glob/{name}", b"")
        await used_box.execute("[ -e glob/pkg/link ] || ln -s deep glob/pkg/link")
        matches = await used_box.glob(pattern, working_dir="glob")
        assert (matches.paths, matches.truncated) == (tuple(found.split()), False)

    async def test_a_glob_returns_the_first_paths_in_order(self, used_box: Box) -> None:
        await used_box.execute("mkdir -p many; cd many; seq -w 300 | xargs touch")
        found = await used_box.glob("many/*", limit=3)
        assert (found.paths, found.truncated) == (("many/001", "many/002", "many/003"), True)

    @pytest.mark.parametrize(
        ("pattern", "working_dir", "code"),
        [
            ("*", "/nope", "not_found"),
            ("*", "/etc", "permission_denied"),
            ("*", "digits", "invalid_input"),
            ("/etc/*", "/home/user", "permission_denied"),
            ("/*", "/home/user", "permission_denied"),
            ("../*", "/home/user", "invalid_input"),
            ("", "/home/user", "invalid_input"),
            ("a\0b", "/home/user", "invalid_input"),
            ("x" * 5000, "/home/user", "invalid_input"),
            ("\ud800", "/home/user", "invalid_input"),
        ],
        ids=lambda value: repr(value)[:20],
    )
    async def test_an_invalid_pattern_or_folder_is_refused(
        self, used_box: Box, pattern: str, working_dir: str, code: str
    ) -> None:
        await used_box.write_file("digits", b"0123456789")
        with pytest.raises(BoxFileError) as caught:
            await used_box.glob(pattern, working_dir=working_dir)
        assert caught.value.code == code, str(caught.value)

    # Archives

    async def test_a_folder_is_transferred_to_another_box(self, backend: Backend, box: Box) -> None:
        made = r"""
            import os
            os.makedirs("dist/pkg/empty")
            open("dist/index.html", "wb").write(bytes(range(256)) * 3000)
            open("dist/pkg/run.sh", "w").write("#!/bin/sh")
            os.chmod("dist/pkg/run.sh", 0o4755)
            os.utime("dist/pkg/run.sh", (1.5e9, 1.5e9))
            os.symlink("../index.html", "dist/pkg/inner")
            os.symlink("/etc/passwd", "dist/absolute")
            os.symlink("../../outside", "dist/pkg/escaping")
            os.mkfifo("dist/pipe")
            open(b"dist/o \xff\n", "w")
            os.utime("dist/pkg", (1.4e9, 1.4e9))
        """
        assert (await play(box, made)).error == ""
        other = await backend.create(box.spec)  # type: ignore[attr-defined]
        try:
            await other.write_file("app/static/kept.txt", b"kept")
            await other.write_file("app/static/index.html", b"old")
            async with contextlib.aclosing(box.pack("dist")) as pieces:
                unpacked = await other.unpack("app/static", pieces)
            assert (unpacked.path, unpacked.bytes, unpacked.files) == (
                "/home/user/app/static",
                256 * 3000 + 9,
                3,
            )
            assert {skipped.path: skipped.reason for skipped in unpacked.skipped} == {
                "absolute": "it links to somewhere else",
                "pkg/escaping": "it links to somewhere else",
                "pipe": "a FIFO",
            }
            look = """
                import os
                os.chdir("app/static")
                print(sorted(os.listdir(b".")))
                print(sorted(os.listdir("pkg")), os.listdir("pkg/empty"))
                found = os.stat("pkg/run.sh")
                print(oct(found.st_mode), found.st_mtime, os.stat("pkg").st_mtime)
                print(open("pkg/inner", "rb").read() == bytes(range(256)) * 3000)
                print(os.listdir("/home/user/app"))
            """
            seen = await play(other, look)
            assert seen.output.splitlines() == [
                "[b'index.html', b'kept.txt', b'o \\xff\\n', b'pkg']",
                "['empty', 'inner', 'run.sh'] []",
                "0o100755 1500000000.0 1400000000.0",
                "True",
                "['static']",
            ]
        finally:
            await other.destroy()

    @pytest.mark.parametrize(
        ("sent", "there", "code"),
        [("z", "z/inner", "is_a_directory"), ("z/inner", "z", "invalid_input")],
    )
    async def test_unpacking_a_file_over_a_folder_or_a_folder_over_a_file_changes_nothing(
        self, used_box: Box, sent: str, there: str, code: str
    ) -> None:
        for path, text in (
            ("sent/a/new.txt", "new"),
            ("sent/a/old.txt", "new"),
            (f"sent/a/{sent}", "new"),
            ("there/a/old.txt", "old"),
            (f"there/a/{there}", "old"),
        ):
            await used_box.write_file(path, text.encode())
        with pytest.raises(BoxFileError) as caught:
            async with contextlib.aclosing(used_box.pack("sent")) as pieces:
                await used_box.unpack("there", pieces)
        assert caught.value.code == code, str(caught.value)
        assert await used_box.read_file("there/a/old.txt", limit=100) == b"old"
        assert await used_box.read_file(f"there/a/{there}", limit=100) == b"old"
        assert await used_box.status("there/a/new.txt") is None
        await used_box.execute("rm -r sent there")

    async def test_a_file_is_unpacked_to_a_path_or_into_a_folder(self, used_box: Box) -> None:
        await used_box.write_file("one/a.bin", bytes(range(256)) * 4096)
        for path, final in (
            ("two/b.bin", "/home/user/two/b.bin"),
            ("two", "/home/user/two/a.bin"),
            ("/tmp", "/tmp/a.bin"),
            ("one/a.bin", "/home/user/one/a.bin"),
        ):
            async with contextlib.aclosing(used_box.pack("one/a.bin", recursive=False)) as pieces:
                unpacked = await used_box.unpack(path, pieces)
            assert (unpacked.path, unpacked.bytes, unpacked.files) == (final, 256 * 4096, 1)
            status = await used_box.status(final)
            assert status
            assert status.size == 256 * 4096
        await used_box.execute("rm -r one two /tmp/a.bin")

    @pytest.mark.parametrize(
        ("path", "recursive", "code"),
        [
            ("nothing", True, "not_found"),
            ("odd", False, "is_a_directory"),
            ("odd/pipe", True, "invalid_input"),
            ("/etc", True, "permission_denied"),
            ("a\0b", True, "invalid_input"),
            ("\ud800", True, "invalid_input"),
        ],
    )
    async def test_packing_an_invalid_path_fails(
        self, used_box: Box, path: str, recursive: bool, code: str
    ) -> None:
        made = "import os\nos.makedirs('odd', exist_ok=True)"
        await play(used_box, f"{made}\nos.path.exists('odd/pipe') or os.mkfifo('odd/pipe')")
        with pytest.raises(BoxFileError) as caught, anyio.fail_after(30):
            async with contextlib.aclosing(used_box.pack(path, recursive=recursive)) as pieces:
                await used_box.unpack("copied", pieces)
        assert caught.value.code == code, str(caught.value)
        assert await used_box.status("copied") is None

    @pytest.mark.parametrize(
        ("archive", "code"),
        [
            (b"", "invalid_input"),
            (b"no archive at all" * 100, "invalid_input"),
            (entry(FILE, rest=b"x", data=b"abc")[:-1], "invalid_input"),
            (entry(FILE, rest=b"x", data=b"abc"), "invalid_input"),
            (entry(FILE, rest=b"x", size=2**63), "invalid_input"),
            (entry(FILE, b"name"), "invalid_input"),
            (entry(LINK, rest=b"/etc/passwd"), "invalid_input"),
            (entry(FOLDER) + entry(FILE, b"../x", data=b"x"), "invalid_input"),
            (entry(FOLDER) + entry(FILE, b"/x", data=b"x"), "invalid_input"),
            (entry(FOLDER) + entry(FILE, b"a/x", data=b"x"), "invalid_input"),
            (entry(FOLDER) + entry(FILE, b"a\0", data=b"x"), "invalid_input"),
            (entry(FOLDER) + entry(FILE, b"", data=b"x"), "invalid_input"),
            (entry(FOLDER) + entry(FILE, b"x" * 256), "invalid_input"),
            (entry(FOLDER) + entry(LINK, b"l", b"../../etc"), "invalid_input"),
            (entry(FOLDER) + entry(LINK, b"l", b"/tmp"), "invalid_input"),
            (entry(FOLDER) + entry(FILE, b"a") * 2, "invalid_input"),
            (entry(FOLDER) + entry(LINK, b"l", b".") + entry(FILE, b"l/x"), "invalid_input"),
            (entry(FOLDER) + entry(9, b"device"), "invalid_input"),
            (entry(FOLDER) + entry(FILE, b"big", data=bytes(40_000_000)), "too_large"),
            (
                entry(FOLDER) + b"".join(entry(FOLDER, b"d/" * n + b"d") for n in range(200)),
                "invalid_input",
            ),
        ],
        ids=range(20),
    )
    async def test_a_hostile_archive_leaves_nothing_behind(
        self, used_box: Box, archive: bytes, code: str
    ) -> None:
        with pytest.raises(BoxFileError) as caught, anyio.fail_after(30):
            await used_box.unpack("hostile/target", one_by_one(archive))
        assert caught.value.code == code, str(caught.value)
        assert (await used_box.execute("ls -A hostile; ls -A /tmp")).stdout.text == ""

    async def test_an_archive_with_too_many_entries_is_refused(self, box: Box) -> None:
        many = b"".join(entry(SKIPPED, b"s", b"why") for _ in range(100_010))
        with pytest.raises(BoxFileError, match="more than 100000"):
            await box.unpack("target", one_by_one(entry(FOLDER) + many))
        told = entry(FOLDER) + entry(SKIPPED, b"s\xff", b"why") * 5000 + entry(END)
        assert len((await box.unpack("target", one_by_one(told))).skipped) == 1000

    async def test_a_damaged_archive_is_refused_and_leaves_nothing(self, used_box: Box) -> None:
        """A fuzzer with a seed changes, removes and doubles bytes of a valid archive."""
        true = entry(FOLDER) + entry(FOLDER, b"a", mode=0o755) + entry(FILE, b"a/b", data=b"x" * 50)
        true += entry(LINK, b"l", b"a/b") + entry(SKIPPED, b"s", b"a FIFO") + entry(END)
        chance = random.Random(20261122)
        accepted = 0
        for _ in range(60):
            spoiled = bytearray(true)
            for _ in range(chance.randint(1, 4)):
                place = chance.randrange(len(spoiled))
                change = chance.randint(0, 2)
                if change == 0:
                    spoiled[place] = chance.choice((0, 1, 4, 5, 0x2F, 0x7F, 0xFF))
                elif change == 1:
                    del spoiled[place : place + chance.randint(1, 30)]
                else:
                    spoiled[place:place] = spoiled[place : place + 25]
            with contextlib.suppress(BoxFileError), anyio.fail_after(30):
                await used_box.unpack("spoiled/target", one_by_one(bytes(spoiled), 37))
                accepted += 1
        assert accepted < 60
        look = "find spoiled -name '.*.part'; find /tmp -mindepth 1; rm -rf spoiled"
        assert (await used_box.execute(look)).stdout.text == ""

    async def test_an_archive_whose_source_fails_leaves_nothing_behind(self, used_box: Box) -> None:
        async def broken() -> AsyncIterator[bytes]:
            yield entry(FOLDER) + entry(FILE, b"a", data=b"x" * 1000)
            raise RuntimeError("the source is gone")

        with pytest.raises(RuntimeError, match="gone"):
            await used_box.unpack("half/target", broken())
        for _ in range(100):
            if not (left := (await used_box.execute("ls -A half")).stdout.text):
                break
            await anyio.sleep(0.05)
        assert left == ""

    async def test_packing_can_be_stopped_early(self, box: Box) -> None:
        await box.execute("head -c 8000000 /dev/urandom > big")
        async with contextlib.aclosing(box.pack("big")) as pieces:
            assert await anext(pieces)
        async with contextlib.aclosing(box.pack("big")) as pieces:
            assert sum([len(piece) async for piece in pieces]) > 8_000_000
