"""Small files are replaced as a whole, and changes by other programs are noticed."""

import os
from pathlib import Path

import pytest

from nekro_core.system.atomic_files import WatchedFile, write_whole


def test_a_file_is_replaced_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "a" / "state.json"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert [each.name for each in path.parent.iterdir()] == ["state.json"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_whole(path, b"one")
    (tmp_path / ".state.json.new").mkdir()
    with pytest.raises(OSError, match=r"state\.json\.new"):
        write_whole(path, b"two")
    assert path.read_bytes() == b"one"


def test_a_watched_file_reports_each_change(tmp_path: Path) -> None:
    path = tmp_path / "names.toml"
    followed = WatchedFile(path)
    assert not followed.changed()
    path.write_text("a")
    assert followed.changed()
    assert not followed.changed()
    write_whole(path, b"b")  # the new file has the same size and maybe the same time stamp
    assert followed.changed()
    os.utime(path, ns=(1, 1))
    assert followed.changed()
    followed.ask_again()
    assert followed.changed()
    path.unlink()
    assert followed.changed()
    followed.ask_again()
    assert not followed.changed()


def test_to_watch_a_path_below_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        WatchedFile(tmp_path / "file" / "names.toml").changed()
