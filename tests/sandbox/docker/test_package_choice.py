"""Which images get packages, and what the bot reports about packages that cannot be fetched."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import docker.errors
import pytest
from docker.api.client import APIClient

from nekro_core.sandbox.docker.engine import DockerEngine, DockerEngineInfo
from nekro_core.sandbox.docker.images import GuestImage
from nekro_core.sandbox.docker.package_volumes import remove_old_volumes
from nekro_core.sandbox.docker.packages import EnginePackages
from nekro_core.sandbox.package_fetch import NAMES, PackagesUnavailable, packages_digest
from tests.sandbox.docker.test_docker_parts import image


class Pip:
    """A fake of pip that always fails."""

    def __init__(self) -> None:
        self.commands: list[Sequence[str]] = []

    async def __call__(self, words: Sequence[str], limit_s: float) -> tuple[int, str]:
        assert limit_s > 0
        self.commands.append(words)
        return 1, "no index"


def shared(folder: Path, default: GuestImage, pip: Pip | None = None) -> EnginePackages:
    """Return the packages of a Docker engine on an ARM machine. The tests send this engine no
    requests."""
    facts = DockerEngineInfo(
        version="28", machine="aarch64", system="linux", remapped=False, memory=0, unbounded=()
    )

    async def choose() -> GuestImage:
        return default

    return EnginePackages(
        DockerEngine(cast(APIClient, None), facts),
        parent=folder / "packages",
        labels={},
        processors=1,
        choose_default=choose,
        run=pip or Pip(),
    )


def arm(**changes: object) -> GuestImage:
    return image(**{"suffix": ".cpython-311-aarch64-linux-gnu.so", **changes})


def test_images_with_the_same_python_share_a_volume(tmp_path: Path) -> None:
    packages = shared(tmp_path, arm())
    names = [
        packages.volume(arm()),
        packages.volume(arm(image_id="sha256:y", version=(3, 11, 9))),
        packages.volume(arm(version=(3, 12, 1), suffix=".cpython-312-aarch64-linux-gnu.so")),
    ]
    assert names[0].startswith("nekro-box-packages-cp311-aarch64-")
    assert names[0] == names[1] != names[2]


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"glibc": ()}, "the image has no glibc"),
        ({"glibc": (2, 17)}, "the image has glibc 2.17"),
        ({"version": (3, 9, 2)}, "the image has Python 3.9"),
        ({"version": (3, 14, 0)}, "the image has Python 3.14"),
        ({"suffix": ".cpython-311-arm-linux-gnueabihf.so"}, "loads *.cpython-311-arm-"),
        ({"suffix": ".pypy310-pp73-aarch64-linux-gnu.so"}, "loads *.pypy310-pp73"),
        (
            {"version": (3, 13, 1), "suffix": ".cpython-313t-aarch64-linux-gnu.so"},
            "loads *.cpython-313t-",
        ),
    ],
)
async def test_an_image_that_cannot_use_the_packages_gets_none(
    tmp_path: Path, changes: dict[str, object], seen: str
) -> None:
    unfit = arm(**changes)
    packages = shared(tmp_path, unfit)
    assert packages.volume(unfit) == ""
    with pytest.raises(PackagesUnavailable) as refused:
        await packages.fetch()
    assert seen in str(refused.value)
    assert "use another image" in packages.failure
    assert packages.names == ()


async def test_packages_are_fetched_for_the_machine_of_the_engine(tmp_path: Path) -> None:
    pip = Pip()
    packages = shared(tmp_path, arm(), pip)
    with pytest.raises(PackagesUnavailable, match=r"no index.*NEKRO_SANDBOX__PACKAGES"):
        await packages.fetch()
    (words,) = pip.commands
    assert words[words.index("--python-version") + 1] == "3.11"
    assert "manylinux2014_aarch64" in words
    assert "no index" in packages.failure
    assert not list((tmp_path / "packages").glob(".*.sending"))


async def test_another_process_sees_why_the_packages_could_not_be_fetched(tmp_path: Path) -> None:
    with pytest.raises(PackagesUnavailable):
        await shared(tmp_path, arm()).fetch()
    doctor = shared(tmp_path, arm())
    doctor.note_box(arm(), complete=False, default=True)
    assert "no index" in doctor.failure


def test_packages_are_named_when_a_box_of_the_default_image_has_reported_them_complete(
    tmp_path: Path,
) -> None:
    packages = shared(tmp_path, arm())
    packages.note_box(arm(), complete=False, default=True)
    assert packages.names == ()
    other = arm(version=(3, 12, 1), suffix=".cpython-312-aarch64-linux-gnu.so")
    packages.note_box(other, complete=True, default=False)
    assert packages.names == (), "the default image has another version of Python"
    packages.note_box(arm(), complete=True, default=True)
    assert packages.names == NAMES


# Volumes of earlier lists of packages

PRESENT = f"cp311-x86_64-{packages_digest()}"


class EngineWithVolumes:
    """Answers as an engine with these volumes: the time when each was made, and whether a container
    uses it."""

    def __init__(self, **volumes: tuple[str, bool]) -> None:
        self.volumes_here = {f"nekro-box-packages-{key}": value for key, value in volumes.items()}
        self.refuses = False

    def volumes(self, filters: dict[str, object]) -> dict[str, object]:
        if self.refuses:
            raise docker.errors.APIError("403 Forbidden")
        return {
            "Volumes": [
                {"Name": name, "CreatedAt": made}
                for name, (made, used) in self.volumes_here.items()
                if not (filters.get("dangling") and used)
            ]
            or None
        }

    def remove_volume(self, name: str) -> None:
        del self.volumes_here[name]


async def left(client: EngineWithVolumes) -> set[str]:
    facts = DockerEngineInfo(
        version="28", machine="x86_64", system="linux", remapped=False, memory=0, unbounded=()
    )
    await remove_old_volumes(DockerEngine(cast(APIClient, client), facts), packages_digest())
    return {name.removeprefix("nekro-box-packages-") for name in client.volumes_here}


async def test_a_volume_of_an_earlier_list_is_removed_when_the_new_one_is_there() -> None:
    old, of_another_python = "cp311-x86_64-0123456789ab", "cp312-x86_64-0123456789ab"
    newer, used = "cp311-x86_64-ba9876543210", "cp311-x86_64-aaaaaaaaaaaa"
    volumes = {
        old: ("2026-11-01T00:00:00Z", False),
        of_another_python: ("2026-11-01T00:00:00Z", False),
        newer: ("2026-11-03T00:00:00Z", False),
        used: ("2026-11-01T00:00:00Z", True),
        "by-somebody": ("2026-11-01T00:00:00Z", False),
    }
    without = EngineWithVolumes(**volumes)
    assert await left(without) == {*volumes}, "the new list was not fetched yet"
    present = EngineWithVolumes(**volumes, **{PRESENT: ("2026-11-02T01:00:00+01:00", False)})
    assert await left(present) == {*volumes, PRESENT} - {old}
    assert await left(EngineWithVolumes()) == set()


async def test_if_the_engine_refuses_to_list_its_volumes_none_is_removed() -> None:
    old = "cp311-x86_64-0123456789ab"
    made = ("2026-11-01T00:00:00Z", False)
    engine = EngineWithVolumes(**{old: made, PRESENT: made})
    engine.refuses = True
    assert await left(engine) == {old, PRESENT}
