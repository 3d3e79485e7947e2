"""Finds out whether the bot runs in a container, and which of the container's settings forbid boxes
of the jail.

A jail needs three things that containers usually refuse: user namespaces, mounts, and a ``/proc``
without covered parts. The seccomp filter and the AppArmor profile of the container decide about
user namespaces and mounts. If another mount covers a part of the container's ``/proc``, the kernel
does not let a user namespace mount a ``/proc`` of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROFILE = "deploy/seccomp.json"
"""The file with our seccomp filter for containers, in the checkout."""
_MARKS = (".dockerenv", "run/.containerenv")
"""Files that Docker and Podman put into each container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLimits:
    """What the container around the bot forbids.

    Attributes:
        filtered: Whether a seccomp filter applies to the processes. A process cannot read the rules
            of the filter.
        apparmor: The name of the AppArmor profile; empty if there is none.
        covered: The parts of ``/proc`` that are covered by another mount.
        read_only: Whether the root of the container's file system is read-only.
    """

    filtered: bool
    apparmor: str
    covered: tuple[str, ...]
    read_only: bool

    @classmethod
    def find(cls, root: Path = Path("/")) -> "ContainerLimits | None":
        """Return the limits of the container around this process. Returns None outside of
        containers. Returns None also in a container that has no seccomp filter, no AppArmor profile
        and no covered parts of ``/proc``: it cannot be told from a virtual machine that was made
        from the image of a container.

        Args:
            root: The root of the file system; only tests give another one.
        """
        if not any((root / mark).exists() for mark in _MARKS) and not _named(root):
            return None
        mounts = _read(root / "proc/self/mountinfo")
        found = cls(
            filtered=_status(root).get("Seccomp") == "2",
            apparmor=_apparmor(root),
            covered=tuple(sorted(_covered(mounts))),
            read_only=_root_is_read_only(mounts),
        )
        return found if found.filtered or found.apparmor or found.covered else None

    def describe(self) -> str:
        """Say, for operators, what confines the container."""
        parts = [
            "a seccomp filter" if self.filtered else "no seccomp filter",
            f"AppArmor profile {self.apparmor}" if self.apparmor else "no AppArmor profile",
            f"{len(self.covered)} parts of /proc covered" if self.covered else "whole /proc",
            "read-only root" if self.read_only else "writable root",
        ]
        return f"in a container: {', '.join(parts)}"

    def remedy(self) -> str:
        """Say with which options the container must be started so that the jail works in it."""
        options = []
        if self.filtered:
            options.append(f"--security-opt seccomp={PROFILE}")
        if self.apparmor:
            options.append("--security-opt apparmor=unconfined")
        if self.covered:
            options.append("--security-opt systempaths=unconfined")
        named = " ".join(options)
        begin = f"Start the container with {named} (compose.yaml has these). " if options else ""
        return (
            f"{begin}If it has them already, the machine around it refuses user namespaces: on "
            "Ubuntu 23.10 and later set kernel.apparmor_restrict_unprivileged_userns=0 there. "
            "Where that is not allowed, let boxes be containers of an engine behind a proxy: "
            "the profile `engine` of compose.yaml, NEKRO_SANDBOX__BACKEND=docker "
            "(docs/deploying.md)"
        )


def _named(root: Path) -> bool:
    """Return True if the first process has the environment variable ``container``, which
    systemd-nspawn, LXC and Podman set. Only root and the user of the first process can read its
    environment; for other users this returns False."""
    return any(each.startswith("container=") for each in _read(root / "proc/1/environ").split("\0"))


def _status(root: Path) -> dict[str, str]:
    lines = _read(root / "proc/self/status").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _apparmor(root: Path) -> str:
    label = _read(root / "proc/self/attr/current").strip("\0\n ")
    name, _, mode = label.partition(" ")
    # Without AppArmor the file is absent, cannot be read, or holds the label of another module.
    return name if mode == "(enforce)" else ""


def _covered(mounts: str) -> Iterator[str]:
    for line in mounts.splitlines():
        place = line.split()[4]
        if place.startswith("/proc/"):
            yield place


def _root_is_read_only(mounts: str) -> bool:
    options = [line.split()[5] for line in mounts.splitlines() if line.split()[4] == "/"]
    return bool(options) and "ro" in options[-1].split(",")


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
