"""A clone stops as soon as the repository has too many files or bytes."""

import os
import random
import subprocess
from pathlib import Path

import pytest

from nekro_core.plugins.installation.git import GitFailed, clone


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


def test_a_repository_within_the_limit_is_cloned(repository: Path, tmp_path: Path) -> None:
    made = commit(repository, {"a.py": b"x = 1\n"})
    assert clone(f"file://{repository}", "main", tmp_path / "ours", most_bytes=200_000) == made
    assert (tmp_path / "ours" / "a.py").read_bytes() == b"x = 1\n"


def test_a_clone_stops_at_large_files_and_at_small_ones_that_unpack_to_large_ones(
    repository: Path, tmp_path: Path
) -> None:
    commit(repository, {"noise.bin": random.Random(1).randbytes(3_000_000)})
    with pytest.raises(GitFailed, match=r"over 5000 files or 1000000 bytes.*a zip of it"):
        clone(f"file://{repository}", "", tmp_path / "one", most_bytes=1_000_000)
    commit(repository, {"noise.bin": b"", "zeros.bin": bytes(3_000_000)})
    with pytest.raises(GitFailed, match="1000000 bytes"):
        clone(f"file://{repository}", "", tmp_path / "two", most_bytes=1_000_000)


def test_a_clone_of_ten_thousand_million_files_stops_and_git_is_killed(
    repository: Path, tmp_path: Path
) -> None:
    """There are ten levels of folders, and each folder lists the next one under ten names. So only
    12 objects are fetched."""
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
