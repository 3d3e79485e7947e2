"""Packs a root file system for boxes as a tar archive, from a folder or from this machine's files.

Archives of both kinds also get the few folders that a box needs. `pack_this_machine` is for
machines that cannot reach a registry. It packs the system's Python with its standard library, a
shell and the usual small programs, each with the libraries that the dynamic linker lists. This
takes seconds.
"""

import io
import os
import re
import shutil
import stat
import subprocess
import tarfile
from pathlib import Path, PurePath
from typing import BinaryIO

from nekro_core.sandbox.box import BackendUnavailable
from nekro_core.sandbox.package_fetch import PLACE

_PROGRAMS = (
    "sh bash dash env ls cat cp mv rm ln mkdir mkfifo rmdir mktemp chmod touch stat du df head "
    "tail cut tr sort uniq wc tee seq date sleep timeout nice nohup kill pgrep pkill ps id whoami "
    "uname hostname nproc pwd basename dirname readlink realpath printf echo test true false yes "
    "expr od sum md5sum sha256sum base64 comm diff cmp patch paste split fold nl tac rev grep "
    "egrep fgrep sed awk mawk gawk find xargs tar gzip gunzip bzip2 xz unzip zip file less which "
    "git"
)
_DATA = ("/usr/share/zoneinfo", "/usr/lib/locale/C.utf8", "/etc/ld.so.cache", "/etc/localtime")
_TOP_LEVEL = ("bin", "sbin", "lib", "lib32", "lib64")
_LEFT_OUT = re.compile(
    r".*/lib/python[^/]*/(site-packages|dist-packages|test|idlelib|turtledemo|ensurepip|config-.*)"
)
"""Folders of a standard library that boxes do not need. They are a quarter of its size."""
_KEPT_EMPTY = ("dev", "proc", "sys", "run", "tmp")
"""Folders that are packed empty. Their files belong to the running system and are of no use in a
box."""

_USERS = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n"
_GROUPS = "root:x:0:\nuser:x:1000:\n"
_FOR_WHEELS = ("libstdc++.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1")
"""Libraries that packages of boxes load and no wheel contains."""
_LIBRARY = re.compile(rb"(?:=> )?(/\S+) \(0x")


def pack_folder(root: Path, target: BinaryIO) -> None:
    """Write the root file system below ``root`` as an archive into ``target``. Raises
    `BackendUnavailable` if it has no Python."""
    if not any((root / place / "python3").exists() for place in ("usr/bin", "usr/local/bin")):
        raise BackendUnavailable(
            f"{root} is not a root file system with a Python: it has no usr/bin/python3"
        )
    with tarfile.open(mode="w|", fileobj=target, format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.iterdir()):
            if path.name not in _KEPT_EMPTY:
                archive.add(path, arcname=path.name, filter=_carried)
        _add_own_places(archive)


def pack_this_machine(interpreter: str, target: BinaryIO) -> None:
    """Write an archive of ``interpreter``, small programs of this machine and their libraries into
    ``target``.

    Blocks for some seconds. Raises `BackendUnavailable` if the program ``ldd`` is missing.
    """
    if shutil.which("ldd") is None:
        raise BackendUnavailable("the program ldd is missing, which lists the libraries of Python")
    found = [
        path for name in _PROGRAMS.split() if (path := shutil.which(name, path="/usr/bin:/bin"))
    ]
    library = _standard_library(interpreter)
    programs = [interpreter, *found]
    extensions = map(str, library.rglob("*.so"))
    needed = (*programs, *_libraries([*programs, *extensions]))
    seen: set[str] = set()
    with tarfile.open(mode="w|", fileobj=target, format=tarfile.PAX_FORMAT) as archive:
        for name in _TOP_LEVEL:
            if Path("/", name).is_symlink():
                archive.add(f"/{name}", arcname=name, filter=_carried)
        for path in needed:
            _add_with_targets(archive, path, seen)
        for path in (str(library), *_DATA):
            if os.path.lexists(path):
                _add_folders(archive, _inside(path), seen)
                archive.add(path, arcname=_inside(path), filter=_carried)
        _add_own_places(archive)


def _standard_library(interpreter: str) -> Path:
    done = subprocess.run(  # noqa: S603 - fixed words
        [interpreter, "-I", "-S", "-c", "import os; print(os.path.dirname(os.__file__))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    return Path(done.stdout.strip())


def _libraries(binaries: list[str]) -> set[str]:
    """Return the libraries that the dynamic linker would load for these files. Scripts are
    skipped."""
    done = subprocess.run(  # noqa: S603 - `shutil.which` found it
        [shutil.which("ldd") or "ldd", *binaries], capture_output=True, check=False, timeout=120
    )
    found = {match.decode() for match in _LIBRARY.findall(done.stdout)}
    # glibc loads libgcc_s by its name when a thread ends, so ldd does not list it.
    names = ("libgcc_s.so.1", *_FOR_WHEELS)
    beside = {str(Path(path).parent / name) for path in found for name in names}
    return found | {path for path in beside if Path(path).exists()}


def _add_with_targets(archive: tarfile.TarFile, path: str, seen: set[str]) -> None:
    """Add a file. If it is a link, also add its target, and so on for up to eight links."""
    for _ in range(8):
        inside = _inside(path)
        if inside in seen:
            return
        _add_folders(archive, inside, seen)
        seen.add(inside)
        archive.add(path, arcname=inside, recursive=False, filter=_carried)
        if not Path(path).is_symlink():
            return
        path = str(Path(path).parent / Path(path).readlink())


def _add_folders(archive: tarfile.TarFile, inside: str, seen: set[str]) -> None:
    """Add the parent folders of a file. An engine would make missing folders with permissions of
    its choice: a rootless engine makes them readable for its own user only."""
    for parent in reversed(PurePath(inside).parents[:-1]):
        if str(parent) not in seen:
            seen.add(str(parent))
            _add_folder(archive, str(parent))


def _add_folder(archive: tarfile.TarFile, name: str) -> None:
    folder = tarfile.TarInfo(name)
    folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
    archive.addfile(folder)


def _inside(path: str) -> str:
    """Return the name of a file in the archive. Links in its folder's path (``/lib``) are
    resolved."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name).lstrip("/")  # noqa: PTH118 - a tar's name


def _carried(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    known = entry.isfile() or entry.isdir() or entry.issym() or entry.islnk()
    if not known or (entry.isdir() and _LEFT_OUT.fullmatch(f"/{entry.name}")):
        return None
    entry.mode &= ~(stat.S_ISUID | stat.S_ISGID)
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def _add_own_places(archive: tarfile.TarFile) -> None:
    # The names that the archive has already. An engine refuses an archive in which a name occurs
    # twice.
    there = set(archive.getnames())
    places = ("home", "home/user", "app", "app/uploads", "opt", PLACE.lstrip("/"))
    for name in (*_KEPT_EMPTY, *places):
        if name not in there:
            there.add(name)
            _add_folder(archive, name)
    if "app/shared" not in there:
        shared = tarfile.TarInfo("app/shared")
        shared.type, shared.linkname = tarfile.SYMTYPE, "/home/user"
        archive.addfile(shared)
    for name, text in (("etc/passwd", _USERS), ("etc/group", _GROUPS)):
        if name not in there:
            _add_folders(archive, name, there)
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
