"""Tests of files that the host reads and writes in a box, and of archives of all files of a box.

Part of `tests.sandbox.conformance`.
"""

import io
import tarfile

import anyio
import pytest

from nekro_core.sandbox.box import (
    Backend,
    Box,
    BoxFileError,
    StopReason,
)
from tests.sandbox.run_code import play


class ArchiveConformance:
    """Needs the fixtures ``backend``, ``box`` (new for each test) and ``used_box`` (shared)."""

    async def test_the_host_and_the_code_read_each_others_files(self, box: Box) -> None:
        data = bytes(range(256)) * 4096
        await box.write_file("/home/user/a/b/data.bin", data)
        await box.write_file("/app/shared/c.txt", b"c")
        await box.write_file("/app/uploads/pic/x.png", b"png")
        code = """
            import os
            print(os.path.getsize("a/b/data.bin"), open("/app/shared/c.txt").read())
            print(open("/app/uploads/pic/x.png").read())
            for path in ("/app/uploads/pic/x.png", "/app/uploads/new"):
                try:
                    open(path, "w")
                except OSError as error:
                    print(error.errno in (13, 30))
            open("/app/shared/out", "w").write("made inside")
        """
        result = await play(box, code)
        assert result.output == f"{len(data)} c\npng\nTrue\nTrue\n", result.error
        assert await box.read_file("a/b/data.bin", limit=len(data)) == data
        assert await box.read_file("/home/user/out", limit=100) == b"made inside"
        assert await box.read_file("/app/uploads/pic/x.png", limit=100) == b"png"

    @pytest.mark.parametrize(
        ("path", "code"),
        [
            ("nothing", "not_found"),
            ("nothing/below", "not_found"),
            ("folder", "is_a_directory"),
            ("/home/user", "is_a_directory"),
            ("/", "permission_denied"),
            ("/etc/passwd", "permission_denied"),
            ("../../etc/passwd", "permission_denied"),
            ("link_out", "permission_denied"),
            ("folder_out/passwd", "permission_denied"),
            ("/proc/self/environ", "permission_denied"),
            ("/proc/1/root/etc/passwd", "permission_denied"),
            ("loop", "permission_denied"),
            ("pipe", "invalid_input"),
            ("socket", "invalid_input"),
            ("file/below", "invalid_input"),
            ("a\0b", "invalid_input"),
            ("", "invalid_input"),
            ("x" * 300, "invalid_input"),
            ("secret", "permission_denied"),
            ("large", "too_large"),
        ],
        ids=lambda value: repr(value)[:30],
    )
    async def test_reading_a_path_that_is_not_a_file_of_the_box_fails(
        self, box: Box, path: str, code: str
    ) -> None:
        made = """
            import os, socket
            os.mkdir("folder")
            os.symlink("/etc/passwd", "link_out")
            os.symlink("/etc", "folder_out")
            os.symlink("loop", "loop")
            os.mkfifo("pipe")
            socket.socket(socket.AF_UNIX).bind("socket")
            for name, size in (("file", 1), ("large", 2000), ("secret", 1)):
                open(name, "w").write("x" * size)
            os.chmod("secret", 0)
        """
        assert (await play(box, made)).stop is StopReason.FINISHED
        with pytest.raises(BoxFileError) as caught, anyio.fail_after(30):
            await box.read_file(path, limit=1000)
        assert caught.value.code == code, str(caught.value)
        assert (await play(box, "print('well')")).output == "well\n"

    @pytest.mark.parametrize(
        ("path", "code"),
        [
            ("/etc/passwd", "permission_denied"),
            ("/usr/bin/x", "permission_denied"),
            ("link_out/x", "permission_denied"),
            ("../x", "permission_denied"),
            ("folder", "is_a_directory"),
            ("file/below", "invalid_input"),
            ("/app/uploads/../x", "invalid_input"),
            ("/app/uploads", "invalid_input"),
            ("/app/uploads/" + "x" * 300, "invalid_input"),
        ],
        ids=lambda value: repr(value)[:30],
    )
    async def test_writing_outside_the_writable_folders_fails(
        self, used_box: Box, path: str, code: str
    ) -> None:
        made = "import os\nos.mkdir('folder')\nos.symlink('/etc', 'link_out')\nopen('file', 'w')"
        await play(used_box, made)
        with pytest.raises(BoxFileError) as caught:
            await used_box.write_file(path, b"x" * 1_000_000)
        assert caught.value.code == code, str(caught.value)

    async def test_a_file_larger_than_the_disk_leaves_nothing_behind(self, box: Box) -> None:
        with pytest.raises(BoxFileError) as caught:
            await box.write_file("big", b"x" * 40 * 1024 * 1024)
        assert caught.value.code == "too_large"
        with pytest.raises(BoxFileError) as caught:
            await box.write_file("/app/uploads/big", b"x" * 40 * 1024 * 1024)
        assert caught.value.code == "too_large"
        assert (await play(box, "import os\nprint(os.listdir('.'))")).output == "[]\n"

    async def test_files_survive_in_an_archive(self, backend: Backend, box: Box) -> None:
        code = """
            import os
            os.makedirs("a/b")
            open("a/b/text", "w").write("kept")
            open("run.sh", "w").write("x"); os.chmod("run.sh", 0o755)
            os.symlink("a/b/text", "inner")
            os.symlink("/etc/passwd", "outer")
            os.symlink("/usr/bin/../../etc/passwd", "hidden")
            os.symlink("/usr/bin/env", "env")
            os.link("run.sh", "same")
            os.mkfifo("pipe")
        """
        assert (await play(box, code)).error == ""
        archive = await box.export_files()
        other = await backend.create(box_spec(box))
        try:
            await other.import_files(archive)
            look = """
                import os
                print(sorted(os.listdir(".")), open("inner").read(), os.access("run.sh", os.X_OK))
            """
            expected = "['a', 'env', 'inner', 'run.sh', 'same'] kept True\n"
            assert (await play(other, look)).output == expected
        finally:
            await other.destroy()

    async def test_only_changed_files_are_exported(self, backend: Backend, box: Box) -> None:
        def names(archive: bytes) -> list[str]:
            with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                return [entry.name for entry in files if not entry.isdir()]

        assert (await box.export_changes()).entries == 0
        for name in ("a", "b", "d/c"):
            await box.write_file(name, name.encode())
        first = await box.export_changes()
        assert (first.whole, names(first.archive), first.removed) == (True, ["a", "b", "d/c"], ())
        await anyio.sleep(0.1)  # a file that changed just before an export is exported again
        settled = await box.export_changes(first.state)
        quiet = await box.export_changes(settled.state)
        assert (quiet.whole, quiet.entries, quiet.removed, quiet.archive) == (False, 0, (), b"")
        code = """
            import os
            times = os.stat("a")
            open("a", "w").write("A")  # as long as before
            os.utime("a", ns=(times.st_atime_ns, times.st_mtime_ns))
            os.remove("b")
            os.rename("d", "e")
            os.symlink("a", "link")
        """
        assert (await play(box, code)).error == ""
        changed = await box.export_changes(quiet.state)
        assert not changed.whole
        assert names(changed.archive) == ["a", "e/c", "link"]
        assert sorted(changed.removed) == ["b", "d", "d/c"]
        # A caller that could not store the last export passes the state from before that export.
        # Then it gets all files.
        again = await box.export_changes(quiet.state)
        assert (again.whole, names(again.archive)) == (True, ["a", "e/c", "link"])
        other = await backend.create(box_spec(box))
        try:
            await other.import_files(again.archive)
            state = await other.note_files()
            await anyio.sleep(0.1)
            same = await other.export_changes(state)
            assert (same.whole, same.removed) == (False, ())
            look = "print(open('link').read(), os.listdir('e'))"
            assert (await play(other, f"import os; {look}")).output == "A ['c']\n"
        finally:
            await other.destroy()

    async def test_a_hostile_archive_writes_nothing_outside_the_home_folder(self, box: Box) -> None:
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            for name in ("../escaped", "/etc/escaped", "a/../../escaped", "/tmp/escaped"):
                entry = tarfile.TarInfo(name)
                entry.size = 1
                archive.addfile(entry, io.BytesIO(b"x"))
            for name, kind, target in (
                ("out", tarfile.SYMTYPE, "/tmp"),
                ("up", tarfile.SYMTYPE, "../../tmp"),
                ("hard", tarfile.LNKTYPE, "/etc/passwd"),
                ("device", tarfile.CHRTYPE, ""),
                ("pipe", tarfile.FIFOTYPE, ""),
            ):
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = kind, target
                archive.addfile(entry)
            entry = tarfile.TarInfo("suid")
            entry.mode = 0o6777
            archive.addfile(entry, io.BytesIO())
        await box.import_files(made.getvalue())
        look = """
            import os
            print(sorted(os.listdir(".")), os.listdir("/tmp"), oct(os.stat("suid").st_mode))
        """
        assert (await play(box, look)).output == "['suid'] [] 0o100755\n"

    @pytest.mark.parametrize("archive", [b"", b"no archive" * 100, b"\1" * 5000])
    async def test_an_invalid_archive_is_refused(self, used_box: Box, archive: bytes) -> None:
        with pytest.raises(BoxFileError) as caught:
            await used_box.import_files(archive)
        assert caught.value.code == "invalid_input"
        assert used_box.alive


def box_spec(box: Box):
    """The spec with which the backend made a box."""
    return box.spec  # type: ignore[attr-defined]
