"""A backup that is cut off, damaged, changed or of a newer version is refused and changes
nothing."""

import io
import json
import shutil
import stat
import struct
import zipfile
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from nekro_core.app.restore import restore_backup
from nekro_core.app.settings import Settings
from nekro_core.backup.encryption import decrypt, encrypt
from nekro_core.backup.errors import (
    BackupError,
    BackupTooNew,
    InvalidBackup,
    RestoreRefused,
    WrongPassphrase,
)
from nekro_core.backup.make import make_backup
from nekro_core.backup.manifest import MANIFEST, SQLITE
from nekro_core.backup.progress import BackupWork
from nekro_core.backup.stage import check_backup
from tests.backup.alone import run_alone
from tests.backup.conftest import CONDUCT, PASSPHRASE, snapshot, source_of, talk, write

EVIL = b"evil"


@cache
def a_backup(*, locked: bool = False) -> bytes:
    """The bytes of a good backup."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "data"
        write(data / "conduct.toml", CONDUCT)
        write(data / "secrets" / "token", b"a-secret-token")
        run_alone(talk, data, "hello")
        passphrase = PASSPHRASE if locked else None
        make_backup(source_of(data), folder / "b.zip", BackupWork(), passphrase=passphrase)
        return (folder / "b.zip").read_bytes()


@pytest.fixture(autouse=True, scope="module")
def _made_before_the_tests() -> None:
    a_backup()


def rebuilt(
    change: Callable[[dict[str, Any], dict[str, bytes]], None] = lambda _manifest, _files: None,
    infos: Callable[[zipfile.ZipInfo], None] = lambda _: None,
) -> bytes:
    """Change the list of contents or the files of a good backup, and pack it again."""
    with zipfile.ZipFile(io.BytesIO(a_backup())) as old:
        files = {name: old.read(name) for name in old.namelist()}
    manifest = json.loads(files.pop(MANIFEST))
    change(manifest, files)
    files.setdefault(MANIFEST, json.dumps(manifest).encode())
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as new:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            infos(info)
            new.writestr(info, content)
    return out.getvalue()


def with_file(name: str) -> Callable[[dict[str, Any], dict[str, bytes]], None]:
    """Change a backup: add a file, and name it in the list of contents."""

    def change(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
        files[name] = EVIL
        digest = sha256(EVIL).hexdigest()
        manifest["members"].append({"name": name, "size": len(EVIL), "sha256": digest})

    return change


def setting(**fields: Any) -> Callable[[dict[str, Any], dict[str, bytes]], None]:
    return lambda manifest, _: manifest.update(fields)


def of_member(**fields: Any) -> Callable[[dict[str, Any], dict[str, bytes]], None]:
    """Change what the list of contents says about conduct.toml."""

    def change(manifest: dict[str, Any], _: dict[str, bytes]) -> None:
        (member,) = (m for m in manifest["members"] if m["name"] == "data/conduct.toml")
        member.update(fields)

    return change


def another_database(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
    content = b"SQLite format 3\0" + b"no database" * 1000
    files[SQLITE] = content
    (member,) = (m for m in manifest["members"] if m["name"] == SQLITE)
    member.update(size=len(content), sha256=sha256(content).hexdigest())


def as_link(info: zipfile.ZipInfo) -> None:
    if info.filename == "data/conduct.toml":
        info.external_attr = (stat.S_IFLNK | 0o777) << 16


def with_bomb() -> bytes:
    """A backup with a file of zeros that unpacks to far more bytes than the list of contents
    says."""

    def change(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
        with_file("data/bomb")(manifest, files)
        files["data/bomb"] = bytes(50_000_000)

    return rebuilt(change, lambda info: setattr(info, "compress_type", zipfile.ZIP_DEFLATED))


def lying_bomb() -> bytes:
    """The backup of `with_bomb`, in which the zip file's own directory lies about the size too."""
    packed = bytearray(with_bomb())
    lie, size = struct.pack("<L", len(EVIL)), struct.pack("<L", 50_000_000)
    at = packed.find(b"PK\x01\x02")
    while at >= 0:
        if packed[at + 46 : at + 55] == b"data/bomb":
            assert packed[at + 24 : at + 28] == size
            packed[at + 24 : at + 28] = lie
        at = packed.find(b"PK\x01\x02", at + 1)
    return bytes(packed)


def twice() -> bytes:
    out = io.BytesIO(a_backup())
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(out, "a") as again:
        again.writestr("data/conduct.toml", EVIL)
    return out.getvalue()


BAD: dict[str, tuple[Callable[[], bytes], type[BackupError], str]] = {
    "empty": (lambda: b"", InvalidBackup, "no whole backup"),
    "half": (lambda: a_backup()[: len(a_backup()) // 2], InvalidBackup, "cut off"),
    "last byte missing": (lambda: a_backup()[:-1], InvalidBackup, "cut off"),
    "no zip file": (lambda: b"hello" * 100, InvalidBackup, "no whole backup"),
    "another zip file": (
        lambda: rebuilt(lambda _, files: files.clear() or files.update({MANIFEST: b"{}"})),
        InvalidBackup,
        "list of contents",
    ),
    "no list of contents": (
        lambda: rebuilt(lambda _, files: files.update({MANIFEST: b""})),
        InvalidBackup,
        "list of contents",
    ),
    "a newer format": (lambda: rebuilt(setting(format=99, nekro="9.9")), BackupTooNew, "9.9"),
    "a newer database": (
        lambda: rebuilt(setting(schema="9999_future")),
        BackupTooNew,
        "9999_future",
    ),
    "another kind of database": (
        lambda: rebuilt(setting(engine="postgres")),
        InvalidBackup,
        "no database",
    ),
    "a changed file": (
        lambda: rebuilt(lambda _, files: files.update({"data/conduct.toml": b"x" * len(CONDUCT)})),
        InvalidBackup,
        "damaged or was changed",
    ),
    "a longer file": (
        lambda: rebuilt(lambda _, files: files.update({"data/conduct.toml": b"x" * 999})),
        InvalidBackup,
        "999 bytes",
    ),
    "a missing file": (
        lambda: rebuilt(lambda _, files: files.pop("data/conduct.toml") and None),
        InvalidBackup,
        "other files",
    ),
    "an additional file": (
        lambda: rebuilt(lambda _, files: files.update({"data/more": EVIL})),
        InvalidBackup,
        "other files",
    ),
    "another file in its place": (
        lambda: rebuilt(
            lambda _, files: files.update({"data/more": files.pop("data/conduct.toml")})
        ),
        InvalidBackup,
        "not in its list",
    ),
    "a file twice": (twice, InvalidBackup, "other files"),
    "a link": (lambda: rebuilt(infos=as_link), InvalidBackup, "a link"),
    "a bomb": (with_bomb, InvalidBackup, "50000000 bytes"),
    "a bomb that lies": (lying_bomb, InvalidBackup, "bomb"),
    "an impossible size": (lambda: rebuilt(of_member(size=-1)), InvalidBackup, "damaged"),
    "a size beyond the disk": (
        lambda: rebuilt(of_member(size=10**15)),
        InvalidBackup,
        "bytes",
    ),
    "a digest that is none": (lambda: rebuilt(of_member(sha256="x")), InvalidBackup, "damaged"),
    "a damaged database": (lambda: rebuilt(another_database), InvalidBackup, "database"),
    "a second database": (
        lambda: rebuilt(with_file("data/nekro.sqlite3")),
        InvalidBackup,
        "second database",
    ),
    **{
        f"the path {name!r}": (
            lambda name=name: rebuilt(with_file(name)),  # type: ignore[misc]
            InvalidBackup,
            "forbidden name|unexpected place|a file and a folder|no file",
        )
        for name in (
            "data/../evil",
            "../evil",
            "/tmp/evil",
            "data//tmp/evil",
            "data/a/../../../evil",
            "data/./evil",
            "data/",
            "data/conduct.toml/evil",
            "data/new\nline",
            "data/" + "x" * 300,
            "evil",
            "database/evil",
        )
    },
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_backup_is_refused_and_changes_nothing(
    name: str, data: Path, tmp_path: Path, settings: Settings
) -> None:
    content, kind, said = BAD[name]
    await talk(data, "before")
    backup = tmp_path / "bad.zip"
    backup.write_bytes(content())
    before = snapshot(tmp_path)
    with pytest.raises(kind, match=said):
        check_backup(backup, BackupWork())
    with pytest.raises(kind, match=said):
        await restore_backup(settings, backup, data, replace=True)
    with pytest.raises(kind):
        await restore_backup(settings, backup, tmp_path / "new")
    after = snapshot(tmp_path)
    after.pop("data/nekro.lock")
    assert after == before
    assert not (tmp_path / "new").exists()


async def test_a_backup_that_the_disk_cannot_hold_is_refused(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = tmp_path / "b.zip"
    backup.write_bytes(a_backup())
    full = shutil.disk_usage(tmp_path)._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    with pytest.raises(RestoreRefused, match="are free on the disk"):
        await restore_backup(settings, backup, tmp_path / "new")
    assert not (tmp_path / "new").exists()


async def test_an_sqlite_backup_is_refused_for_postgresql(tmp_path: Path) -> None:
    url = "asyncpg://nekro:secret@127.0.0.1:1/nekro"
    settings = Settings(_env_file=None, nekro_database_url=url)  # type: ignore[call-arg]
    backup = tmp_path / "b.zip"
    backup.write_bytes(a_backup())
    with pytest.raises(RestoreRefused, match="same kind of database"):
        await restore_backup(settings, backup, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def refused_or_the_same(changed: bytes) -> None:
    """Check that a damaged backup is refused, or that the damage has no effect on the restored
    files."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        backup, target = folder / "b.zip", folder / "new"
        backup.write_bytes(changed)
        settings = Settings(_env_file=None)  # type: ignore[call-arg]
        try:
            run_alone(restore_backup, settings, backup, target)
        except BackupError:
            assert snapshot(folder) == {"b.zip": changed}
        else:
            assert (target / "conduct.toml").read_bytes() == CONDUCT
            assert b"hello" in (target / "nekro.sqlite3").read_bytes()


@given(st.integers(0, 10**6))
@examples(max_examples=60, deadline=None)
def test_a_backup_that_is_cut_off_anywhere_is_refused(at: int) -> None:
    whole = a_backup()
    with TemporaryDirectory() as name:
        backup = Path(name) / "b.zip"
        backup.write_bytes(whole[: at % len(whole)])
        with pytest.raises(InvalidBackup):
            check_backup(backup, BackupWork())


@given(st.integers(0, 10**6), st.integers(0, 7))
@examples(max_examples=60, deadline=None)
def test_a_flipped_bit_is_refused_or_has_no_effect(at: int, bit: int) -> None:
    changed = bytearray(a_backup())
    changed[at % len(changed)] ^= 1 << bit
    refused_or_the_same(bytes(changed))


@given(st.integers(0, 4000), st.integers(0, 7))
@examples(max_examples=40, deadline=None)
def test_a_flipped_bit_in_the_directory_of_the_zip_file_is_refused_or_has_no_effect(
    at: int, bit: int
) -> None:
    changed = bytearray(a_backup())
    changed[-1 - at % min(4000, len(changed))] ^= 1 << bit
    refused_or_the_same(bytes(changed))


@given(st.binary(max_size=200_000), st.data())
@examples(max_examples=8, deadline=None)
def test_encrypted_data_comes_back_and_any_change_is_noticed(
    content: bytes, draw: st.DataObject
) -> None:
    encrypted = b"".join(encrypt(content, PASSPHRASE))
    assert decrypt(io.BytesIO(encrypted), PASSPHRASE) == content
    changed = bytearray(encrypted)
    changed[draw.draw(st.integers(0, len(changed) - 1))] ^= 1
    with pytest.raises(WrongPassphrase):
        decrypt(io.BytesIO(bytes(changed)), PASSPHRASE)
    with pytest.raises(WrongPassphrase):
        decrypt(io.BytesIO(encrypted[: draw.draw(st.integers(0, len(encrypted) - 1))]), PASSPHRASE)


async def test_secrets_from_a_backup_are_checked_like_its_other_files(
    tmp_path: Path, settings: Settings
) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        packed.writestr("data/../../evil", EVIL)

    def change(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
        content = b"".join(encrypt(out.getvalue(), PASSPHRASE))
        files["secrets.bin"] = content
        digest = sha256(content).hexdigest()
        member = {"name": "secrets.bin", "size": len(content), "sha256": digest}
        manifest["members"].append(member)

    backup = tmp_path / "b.zip"
    backup.write_bytes(rebuilt(change))
    with pytest.raises(InvalidBackup, match="forbidden name"):
        await restore_backup(settings, backup, tmp_path / "new", passphrase=PASSPHRASE)
    assert [*tmp_path.iterdir()] == [backup]
