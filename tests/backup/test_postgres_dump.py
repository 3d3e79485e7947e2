"""What is left in the folder when pg_dump fails."""

import os
from pathlib import Path

import pytest

from nekro_core.backup.errors import BackupRefused
from nekro_core.backup.postgres_copy import dump_postgres

URL = "asyncpg://somebody:secret@127.0.0.1:1/bot"


def programs(folder: Path, **code: str) -> str:
    """Make programs of a shell, and return a PATH with them."""
    for name, text in code.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o700)
    return f"{folder}{os.pathsep}{os.defpath}"


WRITES = 'for each; do case $each in --file=*) echo half > "${each#--file=}";; esac; done'


@pytest.mark.parametrize(
    ("dump", "restore", "reason"),
    [
        (f"{WRITES}; echo disk full >&2; exit 1", "exit 0", "could not copy.*disk full"),
        (WRITES, "echo no archive >&2; exit 1", "cannot read what pg_dump wrote: no archive"),
    ],
    ids=["it fails", "what it wrote is damaged"],
)
def test_a_failing_pg_dump_leaves_no_part_and_keeps_the_dump_from_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dump: str, restore: str, reason: str
) -> None:
    found = tmp_path / "programs"
    found.mkdir()
    monkeypatch.setenv("PATH", programs(found, pg_dump=dump, pg_restore=restore))
    folder = tmp_path / "copies"
    folder.mkdir()
    (folder / "server.dump").write_text("whole")
    with pytest.raises(BackupRefused, match=reason):
        dump_postgres(URL, folder / "server.dump", lambda _: None)
    assert {each.name: each.read_text() for each in folder.iterdir()} == {"server.dump": "whole"}


def test_the_dump_appears_under_its_name_when_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tmp_path / "programs"
    found.mkdir()
    monkeypatch.setenv("PATH", programs(found, pg_dump=WRITES, pg_restore="exit 0"))
    folder = tmp_path / "copies"
    folder.mkdir()
    dump_postgres(URL, folder / "server.dump", lambda _: None)
    assert {each.name: each.read_text() for each in folder.iterdir()} == {"server.dump": "half\n"}
