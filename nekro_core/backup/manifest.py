"""The list of contents of a backup, and the rules that every list must keep.

A backup is a zip file. Its last member is ``manifest.json``, which lists every other member with
its size and SHA-256. ``database/...`` is the database, ``data/...`` are files of the data folder,
and ``secrets.bin`` is encrypted.
"""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Annotated, Literal

import msgspec

from nekro_core.backup.contents import Part, part_of
from nekro_core.backup.errors import BackupTooNew, InvalidBackup
from nekro_core.store.upgrade import known_migrations

FORMAT = 1
"""The version of the format. Increase it with each change that an older bot would read wrongly."""

MANIFEST = "manifest.json"
SECRETS = "secrets.bin"
DATA = "data/"
SQLITE = "database/nekro.sqlite3"
POSTGRES = "database/nekro.dump"
ENGINES = {"sqlite": SQLITE, "postgres": POSTGRES}
"""The member with the database, by the kind of database."""

_LONGEST_PART = 255
_LONGEST_NAME = 4000
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One file in a backup. ``modified`` is in seconds since 1970."""

    name: str
    size: Annotated[int, msgspec.Meta(ge=0)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    modified: float = 0.0
    executable: bool = False


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a backup.

    Attributes:
        format: The version of the format.
        nekro: The version of the bot that made the backup.
        schema: The newest migration of the database.
        begun: When the work began, in seconds since 1970. All changes from before this time are in
            the backup.
        ended: When the last file was read, in seconds since 1970.
        engine: The kind of database.
        folder: The absolute path of the data folder. The paths of media in stored messages begin
            with it.
        members: All files.
        left_out: Sentences about what is not in the backup, for example secrets.
    """

    format: int
    nekro: str
    schema: str
    begun: float
    ended: float
    engine: Literal["sqlite", "postgres"]
    folder: str
    members: tuple[Member, ...]
    left_out: tuple[str, ...] = ()

    @property
    def has_secrets(self) -> bool:
        """True if the backup contains the secrets, encrypted."""
        return any(member.name == SECRETS for member in self.members)

    @property
    def size(self) -> int:
        """The bytes of all files, unpacked."""
        return sum(member.size for member in self.members)

    def sized(self, name: str) -> int:
        """Return the size of a member; 0 if there is none."""
        return next((each.size for each in self.members if each.name == name), 0)


class _Format(msgspec.Struct):
    format: int
    nekro: str = "?"


def decode_manifest(data: bytes) -> Manifest:
    """Decode and check a manifest. Raises `InvalidBackup` and `BackupTooNew`."""
    try:
        # Decode only the version first: in a newer format, the other fields may be different.
        head = msgspec.json.decode(data, type=_Format)
        if head.format > FORMAT:
            raise BackupTooNew(
                f"the backup was made by nekro-core {head.nekro} in format {head.format}, this "
                f"version reads up to {FORMAT}: install the newer version"
            )
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidBackup(f"the list of contents of the backup is damaged: {error}") from None
    known = known_migrations()
    if manifest.schema not in known:
        raise BackupTooNew(
            f"the database in the backup is at {manifest.schema!r} (nekro-core {manifest.nekro}), "
            f"this version ends at {known[-1]}: install the newer version"
        )
    _check_names(manifest)
    return manifest


def _check_names(manifest: Manifest) -> None:
    names = [member.name for member in manifest.members]
    if len(set(names)) != len(names):
        raise InvalidBackup("the list of contents names one file twice")
    database = ENGINES[manifest.engine]
    if database not in names:
        raise InvalidBackup("the backup has no database")
    for name in names:
        if name not in (database, SECRETS):
            if not name.startswith(DATA):
                raise InvalidBackup(f"the backup has a file in an unexpected place: {name[:200]!r}")
            check_path(name.removeprefix(DATA))
            if part_of(name.removeprefix(DATA)) is Part.DATABASE:
                raise InvalidBackup(f"the backup has a second database: {name[:200]!r}")
    folders = {str(folder) for name in names for folder in PurePosixPath(name).parents}
    if both := folders.intersection(names):
        raise InvalidBackup(f"{min(both)[:200]!r} is a file and a folder at the same time")


def check_path(path: str) -> None:
    """Check that a path stays inside the folder that it is joined to. Raises `InvalidBackup`."""
    parts = path.split("/")
    if (
        any(part in ("", ".", "..") or len(part.encode()) > _LONGEST_PART for part in parts)
        or len(path.encode()) > _LONGEST_NAME
        or _CONTROL.search(path)
    ):
        raise InvalidBackup(f"the backup has a file with a forbidden name: {path[:200]!r}")


def may_be_named(path: str) -> bool:
    """Return whether a file with this path can be put into a backup."""
    try:
        check_path(path)
    except (InvalidBackup, UnicodeEncodeError):
        return False
    return True


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the manifest as JSON, one file in each line."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1)


def without_doubles(sentences: Iterable[str]) -> tuple[str, ...]:
    """Return the sentences in order, without repetitions."""
    return tuple(dict.fromkeys(sentences))
