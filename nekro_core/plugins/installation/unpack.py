"""Unpacks a zip. No entry of the zip can write outside of the target folder."""

import re
import stat
import zipfile
from pathlib import Path, PurePosixPath

from nekro_core.plugins.installation.files import MOST_BYTES, MOST_FILES, FilesRefused
from nekro_core.system.thread_cancellation import stop_if_cancelled

_PIECE = 1 << 20
_BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compression methods that Python can unpack in pieces of limited size. With other methods, a few
hundred bytes can become gigabytes in memory before the size is checked."""
_UNFIT = re.compile(r'[\x00-\x1f\x7f<>:"|?*]')
"""Characters that have a special meaning in file names on some system, or are not allowed there."""


def unpack(archive: Path, target: Path, *, most_bytes: int = MOST_BYTES) -> None:
    """Unpack an archive into a new folder. If all files of the archive are in one top folder, this
    folder is left out of their paths.

    All entries are checked before the first file is written. Raises `FilesRefused` if a name leads
    out of the folder, if an entry is a link, if two files have the same name, if the archive is
    encrypted or too large, or if the output of a compression method cannot be limited.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = [each for each in opened.infolist() if not each.is_dir()]
            places = _places(archive, entries, most_bytes)
            root = _common_root(list(places.values()))
            left = most_bytes
            for entry in entries:
                stop_if_cancelled()
                place = target.joinpath(*places[entry.filename].parts[root:])
                place.parent.mkdir(parents=True, exist_ok=True)
                with opened.open(entry) as inner, place.open("xb") as file:
                    # The archive may state a wrong size, so the unpacked bytes are counted.
                    while piece := inner.read(min(_PIECE, left + 1)):
                        left -= len(piece)
                        if left < 0:
                            raise FilesRefused(f"{archive}: unpacks to over {most_bytes} bytes")
                        file.write(piece)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError) as error:
        raise FilesRefused(f"{archive}: no readable zip: {error}") from None
    except FileExistsError as error:
        raise FilesRefused(f"{archive}: two files have the path {error.filename}") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise FilesRefused(f"{archive}: cannot be unpacked: {error}") from None


def _places(
    archive: Path, entries: list[zipfile.ZipInfo], most_bytes: int
) -> dict[str, PurePosixPath]:
    if len(entries) > MOST_FILES or sum(each.file_size for each in entries) > most_bytes:
        raise FilesRefused(f"{archive}: over {MOST_FILES} files or {most_bytes} bytes")
    places: dict[str, PurePosixPath] = {}
    taken: set[str] = set()
    for entry in entries:
        # ``orig_filename`` is used because in ``filename`` Python cuts the name at a NUL character.
        # A backslash separates folders on Windows, so it is replaced on every system.
        written = entry.orig_filename.replace("\\", "/")
        place = PurePosixPath(written)
        parts = place.parts
        if place.is_absolute() or ".." in parts or not parts or _UNFIT.search(written):
            raise FilesRefused(f"{archive}: {entry.orig_filename!r} leads out of its folder")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise FilesRefused(f"{archive}: {entry.filename!r} is a link")
        if entry.compress_type not in _BOUNDED:
            raise FilesRefused(
                f"{archive}: {entry.filename!r} has an unsupported compression method: expected "
                "stored or deflated, which zip programs use by default"
            )
        if entry.flag_bits & 0x1:
            raise FilesRefused(f"{archive}: {entry.filename!r} needs a password")
        if written.casefold() in taken:
            raise FilesRefused(f"{archive}: two files are called {entry.filename!r}")
        taken.add(written.casefold())
        places[entry.filename] = place
    if not places:
        raise FilesRefused(f"{archive}: there is no file in it")
    return places


def _common_root(places: list[PurePosixPath]) -> int:
    """Return how many leading folders are left out of all paths: 1 if all files are in one top
    folder, otherwise 0."""
    if any(place.name in ("__init__.py", "_manifest.json") and len(place.parts) == 1
           for place in places):  # fmt: skip
        return 0
    first = {place.parts[0] for place in places}
    return 1 if len(first) == 1 and all(len(place.parts) > 1 for place in places) else 0
