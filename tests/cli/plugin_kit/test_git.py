"""A repository that is too much is given up while it comes, whatever makes it so."""

import os
import random
import subprocess
from pathlib import Path

import pytest

from nekro_core.cli.plugin_kit.git import GitFailed, clone


def git(folder: Path, *arguments: str, given: bytes = b"") -> str:
    who = ("-c", "user.name=ann", "-c", "user.email=ann@example.invalid")
    command = ["git", "-C", str(folder), *who, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, input=given)
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "theirs"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    return folder


def commit(folder: Path, files: dict[str, bytes]) -> str:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    git(folder, "add", "--", *files)
    git(folder, "commit", "--quiet", "-m", "one")
    return git(folder, "rev-parse", "HEAD")


def test_what_fits_is_had(repository: Path, tmp_path: Path) -> None:
    made = commit(repository, {"a.py": b"x = 1\n"})
    assert clone(f"file://{repository}", "main", tmp_path / "ours", most_bytes=200_000) == made
    assert (tmp_path / "ours" / "a.py").read_bytes() == b"x = 1\n"


def test_large_files_and_small_ones_that_unpack_to_much_are_given_up(
    repository: Path, tmp_path: Path
) -> None:
    commit(repository, {"noise.bin": random.Random(1).randbytes(3_000_000)})
    with pytest.raises(GitFailed, match=r"over 5000 files or 1000000 bytes.*a zip of it"):
        clone(f"file://{repository}", "", tmp_path / "one", most_bytes=1_000_000)
    commit(repository, {"noise.bin": b"", "zeros.bin": bytes(3_000_000)})
    with pytest.raises(GitFailed, match="1000000 bytes"):
        clone(f"file://{repository}", "", tmp_path / "two", most_bytes=1_000_000)


def test_a_tree_of_ten_thousand_million_files_is_given_up_and_git_is_ended(
    repository: Path, tmp_path: Path
) -> None:
    """Ten folders deep, each with ten names of one and the same folder: 12 objects to fetch."""
    inner = git(repository, "hash-object", "-w", "--stdin", given=b"boom")
    kind, mode = "blob", "100644"
    for _ in range(10):
        lines = "".join(f"{mode} {kind} {inner}\t{name}\n" for name in "abcdefghij")
        inner = git(repository, "mktree", given=lines.encode())
        kind, mode = "tree", "040000"
    made = git(repository, "commit-tree", "-m", "boom", inner)
    git(repository, "update-ref", "refs/heads/main", made)
    target = tmp_path / "ours"
    with pytest.raises(GitFailed, match="5000 files"):
        clone(f"file://{repository}", "main", target)
    assert not [each for each in Path("/proc").glob("[0-9]*") if str(target) in _command(each)]


def _command(process: Path) -> str:
    try:
        return os.fsdecode((process / "cmdline").read_bytes())
    except OSError:
        return ""
