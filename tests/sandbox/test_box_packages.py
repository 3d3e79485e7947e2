"""The packages of boxes are fetched once. A box gets all of them or none."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from nekro_core.sandbox.box_packages import BoxPackages
from nekro_core.sandbox.package_fetch import NAMES, PackagesUnavailable


class Pip:
    """A fake of pip and of Python's compiler. It writes two modules into the folder that pip would
    fill, and ends with ``status`` after ``takes_s`` seconds."""

    def __init__(self, status: int = 0, said: str = "", *, takes_s: float = 0.0) -> None:
        self.status = status
        self.said = said
        self.takes_s = takes_s
        self.commands: list[Sequence[str]] = []

    async def __call__(self, words: Sequence[str], limit_s: float) -> tuple[int, str]:
        assert limit_s > 0
        self.commands.append(words)
        if "--target" in words:
            target = Path(words[words.index("--target") + 1])
            (target / "numpy").mkdir(parents=True)
            (target / "numpy" / "__init__.py").write_text("x = 1")
            (target / "six.py").write_text("")
        await anyio.sleep(self.takes_s)
        return self.status, self.said


def packages(folder: Path) -> BoxPackages:
    return BoxPackages(parent=folder / "packages", executable="/usr/bin/python3", version=(3, 11))


async def test_the_packages_are_fetched_for_the_python_of_the_boxes(tmp_path: Path) -> None:
    pip, wanted = Pip(), packages(tmp_path)
    folder = wanted.prepare()
    assert wanted.names == ()
    await wanted.fetch(pip)
    assert wanted.names == NAMES
    fetching = pip.commands[0]
    assert fetching[fetching.index("--python-version") + 1] == "3.11"
    assert "--only-binary=:all:" in fetching
    assert (folder / "numpy" / "__init__.py").read_text() == "x = 1"
    assert (folder / "numpy" / "__init__.py").stat().st_mode & 0o777 == 0o644
    assert not list(folder.parent.glob(".*.fetching"))


async def test_packages_that_are_there_are_not_fetched_again(tmp_path: Path) -> None:
    pip, wanted = Pip(), packages(tmp_path)
    wanted.prepare()
    await wanted.fetch(pip)
    count = len(pip.commands)
    await wanted.fetch(pip)
    assert len(pip.commands) == count


async def test_a_failure_of_pip_leaves_no_folder_and_says_what_to_do(tmp_path: Path) -> None:
    wanted = packages(tmp_path)
    folder = wanted.prepare()
    with pytest.raises(PackagesUnavailable, match=r"no index.*NEKRO_SANDBOX__PACKAGES"):
        await wanted.fetch(Pip(1, "no index"))
    assert wanted.names == ()
    assert list(folder.iterdir()) == []
    assert not list(folder.parent.glob(".*.fetching"))
    await wanted.fetch(Pip())
    assert wanted.names == NAMES


async def test_the_reason_of_a_failed_fetch_is_stored_until_a_fetch_succeeds(
    tmp_path: Path,
) -> None:
    wanted = packages(tmp_path)
    wanted.prepare()
    assert wanted.failure == ""
    with pytest.raises(PackagesUnavailable):
        await wanted.fetch(Pip(1, "no index"))
    in_another_process = packages(tmp_path)
    assert "no index" in in_another_process.failure
    await wanted.fetch(Pip())
    assert in_another_process.failure == ""


async def test_a_python_without_wheels_is_refused_before_pip_runs(tmp_path: Path) -> None:
    pip = Pip()
    wanted = BoxPackages(parent=tmp_path / "p", executable="/usr/bin/python3", version=(3, 9))
    wanted.prepare()
    with pytest.raises(PackagesUnavailable, match=r"for Python 3\.9, only for 3\.10 to 3\.13"):
        await wanted.fetch(pip)
    assert pip.commands == []


async def test_two_bots_at_the_same_time_fetch_only_once(tmp_path: Path) -> None:
    first, second = Pip(takes_s=0.2), Pip()
    wanted = packages(tmp_path)
    wanted.prepare()
    async with anyio.create_task_group() as bots:
        bots.start_soon(wanted.fetch, first)
        with anyio.fail_after(30):
            while not first.commands:
                await anyio.sleep(0.005)
        bots.start_soon(wanted.fetch, second)
    assert first.commands
    assert not second.commands


async def test_a_cancelled_fetch_leaves_no_folder(tmp_path: Path) -> None:
    wanted = packages(tmp_path)
    folder = wanted.prepare()
    with anyio.move_on_after(0.1):
        await wanted.fetch(Pip(takes_s=60))
    assert wanted.names == ()
    assert list(folder.iterdir()) == []
    assert not list(folder.parent.glob(".*.fetching"))


def test_a_link_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "packages").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="another user"):
        packages(tmp_path).prepare()
