"""Attacks on the host's files, on the box's system files, and on the host's operations with files
that a guest has prepared."""
# ruff: noqa: E501 - the code of an attack reads best on one line

import contextlib
import io
import tarfile
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from nekro_core.sandbox.box import BoxFileError
from nekro_core.sandbox.jail.defences import JailDefences
from tests.sandbox.attacks.attack import (
    HOST_FOLDER,
    PRELUDE,
    Attack,
    GotThrough,
    Ground,
    Without,
    guest,
    judge,
)
from tests.sandbox.attacks.egress import NO_FILTER

NAIVE = Without(naive=True)

EXTRACT = """
import sys, tarfile
tarfile.TarFile.extraction_filter = staticmethod(lambda member, path: member)
with tarfile.open(fileobj=sys.stdin.buffer) as archive:
    for member in archive:
        try:
            archive.extract(member)
        except (OSError, tarfile.TarError):
            pass
"""
"""A program that unpacks an archive without checks."""


async def read(ground: Ground, path: str) -> None:
    """Read a file of the box with the host's function `Box.read_file`, or, if ``ground.naive`` is
    true, with the program ``head``, which checks nothing. Raises `BoxFileError`."""
    if ground.naive:
        await succeed(ground, ["head", "-c", "1048576", "--", path])
    else:
        await ground.box.read_file(path, limit=1 << 20)


async def write(ground: Ground, path: str) -> None:
    """Write a file of the box with the host's function `Box.write_file`, or, if ``ground.naive`` is
    true, with the program ``tee``, which checks nothing. Raises `BoxFileError`."""
    if ground.naive:
        await succeed(ground, ["tee", "--", path], given=b"x")
    else:
        await ground.box.write_file(path, b"x")


async def succeed(ground: Ground, words: list[str], given: bytes = b"") -> None:
    """Run a program in the box. Raises `BoxFileError` if the program fails or takes longer than
    20 s."""
    done = await ground.box.execute(words, standard_input=given, timeout_s=20)
    if done.exit_code:
        raise BoxFileError("invalid_input", done.stderr.text)


async def canary(ground: Ground) -> GotThrough:
    with tempfile.TemporaryDirectory(dir=HOST_FOLDER) as folder:
        Path(folder).chmod(0o755)
        Path(folder, "canary").write_text("a secret of the host")
        Path(folder, "canary").chmod(0o644)
        code = f"fails(lambda: open('{folder}/canary').read())"
        return judge(await ground.play(PRELUDE + code), 1)


def host_reads_and_writes(
    prepare: str, *paths: str, read_only: tuple[str, ...] = ()
) -> Callable[[Ground], Awaitable[GotThrough]]:
    """Return an attack with paths that lead out of the box's files. First the guest runs the code
    ``prepare``, for example to make links. Then the host reads ``paths`` and ``read_only``, and
    writes to ``paths``. All reads and writes must fail, and together take less than 20 s."""

    async def act(ground: Ground) -> GotThrough:
        await ground.play(PRELUDE + prepare)
        got = []
        with anyio.move_on_after(20) as waited:
            for path in (*paths, *read_only):
                with contextlib.suppress(BoxFileError):
                    await read(ground, path)
                    got.append(f"{path} was read")
            for path in paths:
                with contextlib.suppress(BoxFileError):
                    await write(ground, path)
                    got.append(f"{path} was written")
        return [*got, "it hung"] if waited.cancelled_caught else got

    return act


async def terabytes_of_holes(ground: Ground) -> GotThrough:
    """A guest makes 20 files of 1 TiB that consist of holes. They must take almost no space in an
    archive of the box's files, and the other files of the archive must not be lost."""
    code = """
        for n in range(20):
            with open(f"long{n}", "wb") as file: file.truncate(1 << 40)
        open("small", "w").write("small")
    """
    await ground.play(code)
    other = await ground.another_box()
    got: GotThrough = []
    with anyio.fail_after(20):
        archive = await ground.box.export_files()
        await other.import_files(archive)
        await other.unpack("again", ground.box.pack("/home/user"))
    if len(archive) > 1024**2:
        got.append(f"{len(archive)} bytes were stored")
    for path in ("small", "again/small"):
        if await other.read_file(path, limit=99) != b"small":
            got.append(f"{path} was lost")
    return got


def hostile_tar() -> bytes:
    """Return a tar archive such as a guest could make. Some of its members lead out of the box's
    files. Others are links, a device, a pipe, a set-user-id file, or have a very long name."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:

        def add(
            name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644
        ) -> None:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mode = kind, target, mode
            member.size = 4 if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(b"evil") if member.size else None)

        add("../../tmp/outside")
        add("/tmp/absolute")
        add("link", tarfile.SYMTYPE, "/tmp")
        add("link/through")
        add("hard", tarfile.LNKTYPE, "/etc/passwd")
        add("device", tarfile.CHRTYPE)
        add("pipe", tarfile.FIFOTYPE)
        add("raised", mode=0o6755)
        add("n" * 65536)
    return buffer.getvalue()


async def hostile_archive(ground: Ground) -> GotThrough:
    """The function that restores a box's files gets the archive of `hostile_tar`. It must write
    nothing into /tmp, and no device, pipe or set-user-id file into the box."""
    with anyio.move_on_after(20) as waited:
        with contextlib.suppress(BoxFileError):
            if ground.naive:
                await succeed(ground, ["python3", "-c", EXTRACT], given=hostile_tar())
            else:
                await ground.box.import_files(hostile_tar())
    look = """
import stat
for name in ("outside", "absolute", "through"):
    holds(not os.path.lexists("/tmp/" + name), name)
for folder, names, files in os.walk("/home/user"):
    for name in files:
        mode = os.lstat(os.path.join(folder, name)).st_mode
        bad = mode & 0o6000 or stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)
        if bad: print("NOT HELD:", name[:50], oct(mode))
"""
    got = judge(await ground.play(PRELUDE + look), 3)
    return [*got, "it hung"] if waited.cancelled_caught else got


ATTACKS = [
    Attack(
        number=6,
        name="a file of the host",
        act=canary,
        without=Without(defences=JailDefences(own_files=False)),
    ),
    Attack(
        number=6,
        name="the host's folders",
        act=guest(
            """
            for path in ("/etc/shadow", "/root", "/home/other", "/proc/1/root/etc/shadow", "/sys/kernel",
                         "/var/lib", "/opt/x", "/srv", "/boot", "/mnt"):
                fails(lambda: os.stat(path) and os.listdir(path))
            """,
            10,
        ),
        without=Without(defences=JailDefences(own_files=False)),
        backends=frozenset({"jail"}),  # a container has folders of these names from its image
    ),
    Attack(
        number=6,
        name="packages of the host",
        act=guest(
            """
            import pathlib
            for root in ("/usr", "/usr/local", sys.prefix):
                found = list(pathlib.Path(root).glob("lib/python3*/*-packages/*"))
                holds(not found, found[:5])
            """,
            3,
        ),
        because="public packages: they are hidden for order, not for safety",
        backends=frozenset({"jail"}),
    ),
    Attack(
        number=7,
        name="writing to the system",
        act=guest(
            """
            for path in ("/usr/bin/x", "/usr/lib/x", "/etc/x", "/x", "/dev/x", "/proc/x",
                         "/app/x", "/app/uploads/x", "/home/x", "/run/x"):
                fails(lambda: open(path, "w"))
            """,
            10,
        ),
        without=Without(defences=JailDefences(read_only=False)),
        spoils=True,
    ),
    Attack(
        number=7,
        name="the supervisor's own code",
        act=guest(
            """
            import glob
            here = os.path.dirname(os.path.abspath(sys.modules["guest_wire"].__file__))
            for path in (f"{here}/x", f"{here}/guest_code.py", f"{here}/__pycache__/x"):
                fails(lambda: open(path, "w"))
            fails(lambda: os.rename(here, here + "x"))
            """,
            4,
        ),
        because="every box of a backend shares this code: its success would hurt the other attacks",
        backends=frozenset({"jail"}),  # a container has no file of its supervisor
    ),
    Attack(
        number=7,
        name="writing to the packages that boxes share",
        act=guest(
            """
            for path in ("x.py", ".complete", "numpy/x.py", "startup/x.py"):
                fails(lambda: open("/opt/packages/" + path, "w"), errno.EROFS, errno.ENOENT)
            fails(lambda: os.mkdir("/opt/packages/x"), errno.EROFS)
            fails(lambda: os.chmod("/opt/packages", 0o777), errno.EROFS)
            fails(lambda: os.rename("/opt/packages", "/opt/x"), errno.EROFS, errno.EACCES, errno.EBUSY)
            fails(lambda: call(165 if x86 else 40, b"", b"/opt/packages", b"", 32, 0), errno.EPERM)
            """,
            8,
        ),
        because="every box of a backend shares this folder: its success would hurt the other attacks",
    ),
    Attack(
        number=8,
        name="links in paths that the host reads and writes",
        act=host_reads_and_writes(
            """
os.symlink("/etc", "etc")
os.symlink("/etc/passwd", "passwd")
os.symlink("/", "root")
os.symlink("loop", "loop")
os.symlink("/run", "run")
""",
            "etc/passwd",
            "passwd",
            "root/etc/x",
            "run/guest/x",
            read_only=("loop",),  # it is only read, because a write would replace the link itself
        ),
        without=NAIVE,
        spoils=True,
    ),
    Attack(
        number=9,
        name="other paths that lead out of the box",
        act=host_reads_and_writes(
            "",
            "/proc/self/root/etc/passwd",
            "/proc/1/root/etc/passwd",
            "/proc/1/mem",
            "/proc/self/fd/0",
            "../../etc/passwd",
            "x/../../../../etc/passwd",
            "/etc/passwd",
            "/dev/null",
            "nul\0byte",
            "/app/uploads/../../etc/passwd",
        ),
        without=NAIVE,
        spoils=True,
    ),
    Attack(
        number=10,
        name="an archive with every hostile entry",
        act=hostile_archive,
        without=NAIVE,
        spoils=True,
    ),
    Attack(
        number=11,
        name="files that are not regular files",
        act=host_reads_and_writes(
            """
os.mkfifo("fifo")
os.chmod("fifo", 0o000)
os.mkdir("folder")
server = socket.socket(socket.AF_UNIX)
server.bind("socket")
os.symlink("/dev/zero", "zero")
""",
            "folder",
            "zero",
            read_only=("fifo", "socket"),
        ),
        without=NAIVE,
        spoils=True,
    ),
    Attack(
        number=12,
        name="paths at which no file can be",
        act=host_reads_and_writes(
            "open('file', 'w').close()",
            "file/below",
            "/usr/bin/x",
            "/run/x",
            "",
            ".",
            "/",
            "a/" * 3000,
            "n" * 300,
        ),
        # The kernel refuses most of these paths. Writes to system folders fail because the root is
        # mounted read-only.
        without=Without(naive=True, defences=JailDefences(read_only=False)),
        spoils=True,
    ),
    Attack(
        number=13,
        name="filling the disk",
        act=guest(
            """
            def fill(folder):
                with open(folder + "/fill", "wb", buffering=0) as file:
                    for _ in range(24):
                        file.write(b"x" * 1024**2)
                return "24 MB"
            for folder in ("/home/user", "/tmp", "/dev/shm"):
                fails(lambda: fill(folder), errno.ENOSPC, errno.EDQUOT)
            for folder in ("/home/user", "/tmp", "/dev/shm"):
                os.unlink(folder + "/fill")
            """,
            3,
        ),
        without=Without(defences=JailDefences(disk=False)),
        spoils=True,
    ),
    Attack(
        number=13,
        name="20 TB of holes in files",
        act=terabytes_of_holes,
        because="the supervisor leaves the holes out, and the test cannot switch this off",
        spoils=True,
    ),
    Attack(
        number=14,
        name="mounting, chroot and devices",
        act=guest(
            """
            fails(lambda: os.mknod("dev", 0o600 | 0o020000, os.makedev(1, 1)))
            fails(lambda: os.chroot("/tmp"))
            for number in (165, 166, 155) if x86 else (40, 39, 41):
                fails(lambda: call(number, b"/tmp", b"/tmp", b"tmpfs", 0, 0), errno.EPERM)
            for number in (428, 429, 430, 431, 432, 442):
                fails(lambda: call(number, 0, b"tmpfs", 0, 0, 0), errno.ENOSYS, errno.EPERM)
            fails(lambda: call(304 if x86 else 265, 0, 0, 0), errno.ENOSYS, errno.EPERM)
            """,
            12,
        ),
        because="without capabilities they fail too; the next attack takes some first",
    ),
    Attack(
        number=14,
        name="mounting in a new namespace",
        act=guest(
            """
            def mount():
                call(272 if x86 else 97, 0x10000000 | 0x20000)
                return call(165 if x86 else 40, b"none", b"/tmp", b"tmpfs", 0, 0)
            fails(mount, errno.EPERM)
            """
        ),
        without=NO_FILTER,
    ),
]
