"""Finds where on this machine a cgroup with limits can be made, and which processes a cgroup has.

Sources: the kernel's ``cgroup-v2.rst`` and ``cgroup-v1/memory.rst``, and `man 5 proc`.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nekro_core.sandbox.jail import process_tree

NEEDED = frozenset({"memory", "pids"})
WANTED = ("memory", "pids", "cpu")


@dataclass(frozen=True, slots=True)
class CgroupHierarchy:
    """A mounted tree of cgroups. ``folder`` is the group in which new groups can be made."""

    version: int
    mount: Path
    folder: Path
    controllers: frozenset[str]


def find_hierarchies(
    proc: Path = Path("/proc/self"), *, root: bool
) -> tuple[tuple[CgroupHierarchy, ...], str]:
    """Return the trees in which groups with memory and process limits can be made. If there is
    none, the returned text says why."""
    mounts = list(_mounts((proc / "mountinfo").read_text()))
    ours = dict(_memberships((proc / "cgroup").read_text()))
    if "" in ours:
        for kind, _, inside, at in mounts:
            if kind == "cgroup2" and (found := _version_2(_own(ours[""], inside, at), at)):
                return (found,), ""
    if not root:
        return (), "no part of a cgroup tree is delegated to this user"
    found_1: dict[Path, CgroupHierarchy] = {}
    for kind, options, inside, at in mounts:
        controllers = frozenset(WANTED) & set(options)
        if kind == "cgroup" and controllers:
            folder = _own(ours.get(next(iter(controllers)), "/"), inside, at)
            if os.access(folder, os.W_OK):
                found_1[at] = CgroupHierarchy(1, at, folder, controllers)
    if found_1 and frozenset().union(*(one.controllers for one in found_1.values())) >= NEEDED:
        return tuple(found_1.values()), ""
    return (), "no writable cgroup tree has the memory and pids controllers"


def _version_2(own: Path, at: Path) -> CgroupHierarchy | None:
    """Return the nearest group in which groups with limits can be made. It is this process's group
    or one above it."""
    for folder in (own, *own.parents):
        if not folder.is_relative_to(at) or not os.access(folder / "cgroup.procs", os.W_OK):
            return None
        try:
            available = frozenset((folder / "cgroup.controllers").read_text().split())
            passed_on = frozenset((folder / "cgroup.subtree_control").read_text().split())
        except OSError:
            return None
        ours = folder == own and may_be_emptied(folder)
        usable = available if ours or is_real_root(folder) else passed_on
        if usable >= NEEDED:
            return CgroupHierarchy(2, at, folder, usable & frozenset(WANTED))
    return None


def may_be_emptied(folder: Path) -> bool:
    """Return True if a group has no other processes than this process and its descendants. Then the
    group can be emptied by moving them to another group."""
    return members(folder) <= set(process_tree.descendants(os.getpid()))


def is_real_root(folder: Path) -> bool:
    """Return True if this is the root group. Only the root group may have both processes and child
    groups with limits."""
    return not (folder / "cgroup.type").exists()


def members(folder: Path) -> set[int]:
    """Return the process ids of a group; empty if the group no longer exists."""
    try:
        return set(map(int, (folder / "cgroup.procs").read_text().split()))
    except OSError:
        return set()


def _mounts(text: str) -> Iterator[tuple[str, list[str], str, Path]]:
    """Read ``mountinfo``: for each cgroup mount its type, file system options, the mounted part of
    the tree, and the mount point."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            _, _, _, inside, at, *_ = before.split(" ")
            yield kind, options.split(","), inside, Path(at)


def _memberships(text: str) -> Iterator[tuple[str, str]]:
    """Read ``/proc/self/cgroup``: each controller and the path of this process's group for it. For
    version 2 the controller is ``""``."""
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            yield name, path


def _own(path: str, inside: str, at: Path) -> Path:
    """Return the folder of this process's group. In a container only a part of the tree may be
    mounted."""
    with contextlib.suppress(ValueError):
        return at / Path(path).relative_to(inside)
    return at
