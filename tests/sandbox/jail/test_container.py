"""If the bot runs in a container, the jail recognizes which settings of the container forbid boxes,
and names the options that change these settings."""

from pathlib import Path

import pytest

from nekro_core.sandbox.jail.container import ContainerLimits
from nekro_core.sandbox.jail.remedies import find_remedy

ROOT = "1 0 0:1 / / {options},relatime - overlay overlay rw"
PROC = "2 1 0:2 / /proc rw,nosuid,nodev,noexec - proc proc rw"
COVERED = "3 2 0:3 / /proc/kcore rw,nosuid - tmpfs tmpfs rw"
REFUSED = "bwrap: No permissions to create new namespace, likely because the kernel does not allow"


def machine(
    folder: Path,
    *,
    mark: str = ".dockerenv",
    seccomp: str = "2",
    apparmor: str = "docker-default (enforce)\n",
    mounts: tuple[str, ...] = (ROOT.format(options="ro"), PROC, COVERED),
) -> Path:
    """Make the files by which the jail recognizes a container and its settings, below ``folder``
    instead of the root. Return ``folder``."""
    own, first = folder / "proc/self", folder / "proc/1"
    (own / "attr").mkdir(parents=True)
    first.mkdir()
    if mark == "variable":
        (first / "environ").write_bytes(b"TERM=linux\0container=lxc\0")
    elif mark:
        (folder / mark).parent.mkdir(exist_ok=True)
        (folder / mark).touch()
    (own / "status").write_text(f"Name:\tnekro\nSeccomp:\t{seccomp}\nSeccomp_filters:\t1\n")
    (own / "attr/current").write_text(apparmor)
    (own / "mountinfo").write_text("\n".join(mounts) + "\n")
    return folder


def test_the_usual_settings_of_a_container_are_named_with_the_options_that_change_them(
    tmp_path: Path,
) -> None:
    found = ContainerLimits.find(machine(tmp_path))
    assert found is not None
    assert found.describe() == (
        "in a container: a seccomp filter, AppArmor profile docker-default, 1 parts of /proc "
        "covered, read-only root"
    )
    options = (
        "--security-opt seccomp=deploy/seccomp.json --security-opt apparmor=unconfined "
        "--security-opt systempaths=unconfined"
    )
    assert options in find_remedy(REFUSED, found)
    assert options in find_remedy("bwrap: Can't mount proc on /newroot/proc: ...", found)
    assert options in find_remedy("bwrap: Failed to make / slave: Permission denied", found)


def test_the_remedy_names_only_the_options_that_the_container_lacks(tmp_path: Path) -> None:
    found = ContainerLimits.find(machine(tmp_path, apparmor="unconfined\n", seccomp="0"))
    assert found is not None
    remedy = find_remedy(REFUSED, found)
    assert "systempaths=unconfined" in remedy
    assert "seccomp=" not in remedy
    assert "apparmor=unconfined" not in remedy


@pytest.mark.parametrize("mark", [".dockerenv", "run/.containerenv", "variable"])
def test_docker_podman_and_lxc_are_known_by_their_marks(tmp_path: Path, mark: str) -> None:
    assert ContainerLimits.find(machine(tmp_path, mark=mark)) is not None


def test_a_machine_without_a_mark_or_without_limits_is_no_container(tmp_path: Path) -> None:
    assert ContainerLimits.find(machine(tmp_path / "a", mark="")) is None
    free = machine(tmp_path / "b", seccomp="0", apparmor="", mounts=(PROC,))
    assert ContainerLimits.find(free) is None


def test_other_faults_keep_their_remedy_in_a_container(tmp_path: Path) -> None:
    found = ContainerLimits.find(machine(tmp_path))
    complaint = "no Python that the boxes' user can run: ..."
    assert find_remedy(complaint, found) == find_remedy(complaint) != ""
