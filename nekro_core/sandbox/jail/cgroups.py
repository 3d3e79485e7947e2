"""Cgroups: the kernel limits memory, processes and processor share of a box's whole tree.

A group is made where this process may make one. With version 2 that is a part of the tree that is
delegated to it (systemd's ``Delegate=yes``) or, as root, any part whose controllers are passed on.
With version 1 only root can make one. Elsewhere the watchdog alone limits the tree. Sources: the
kernel's ``cgroup-v2.rst`` and ``cgroup-v1/memory.rst``.
"""

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nekro_core.sandbox.box import BoxSpec
from nekro_core.sandbox.jail.cgroup_trees import (
    CgroupHierarchy,
    is_real_root,
    may_be_emptied,
    members,
)

_PREFIX = "nekro-boxes-"
_MARGIN = 32 * 1024 * 1024
"""Memory of supervisor, launcher and interpreter themselves; the same as the watchdog's."""
_HELPERS = 3
"""Processes that are not the guest's: launcher, supervisor, and the run that is forked ahead."""
_SHARES = 512
_WEIGHT = 50
"""Half of the default weight, in the units of version 1 and of version 2."""
_TRIES = 20


class BoxCgroup:
    """The cgroup of one box. ``folders`` has one folder for each hierarchy."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders
        self._killed = 0

    def add(self, tree: Callable[[], Iterable[int]]) -> None:
        """Move a box's processes into the group, also newly forked ones. Raises `OSError`."""
        for folder in self._folders:
            for _ in range(_TRIES):
                outside = set(tree()) - members(folder)
                if not outside:
                    break
                for pid in outside:
                    with contextlib.suppress(ProcessLookupError):
                        (folder / "cgroup.procs").write_text(str(pid))

    def starved(self) -> bool:
        """Whether the kernel killed a process in it for memory since the last call."""
        before, self._killed = self._killed, self._kills()
        return self._killed > before

    def remove(self) -> None:
        """Delete the group; its processes have ended or are about to end."""
        for folder in self._folders:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _kills(self) -> int:
        for folder in self._folders:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError):
                    for line in (folder / name).read_text().splitlines():
                        if line.startswith("oom_kill "):
                            return int(line.split()[1])
        return 0


@dataclass(frozen=True, slots=True)
class CgroupManager:
    """The folders for the groups of one backend's boxes. Each is locked while it lives."""

    version: int
    controllers: frozenset[str]
    _roots: tuple[tuple[Path, CgroupHierarchy], ...]
    _locks: list[int] = field(default_factory=list)

    @classmethod
    def open(cls, hierarchies: Iterable[CgroupHierarchy], together: int = 0) -> "CgroupManager":
        """Make the folders, and remove those of processes that have ended. ``together`` is the
        limit of all boxes; 0 means no limit. Raises `OSError`."""
        name = f"{_PREFIX}{secrets.token_hex(6)}"
        roots = tuple((one.folder / name, one) for one in hierarchies)
        version = max(one.version for _, one in roots)
        controllers = frozenset().union(*(one.controllers for _, one in roots))
        opened = cls(version, controllers, roots)
        try:
            for root, hierarchy in roots:
                _sweep(hierarchy.mount)
                _make_room(hierarchy)
                root.mkdir()
                lock = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                opened._locks.append(lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if hierarchy.version == 2:
                    _pass_on(root, hierarchy.controllers)
                _bound_all(root, hierarchy, together)
            opened.make("probe", BoxSpec()).remove()
        except BaseException:
            opened.close()
            raise
        return opened

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the boxes' groups."""
        return tuple(root for root, _ in self._roots)

    def describe(self) -> str:
        """Describe what the cgroups limit."""
        return f"{', '.join(sorted(self.controllers))} by a cgroup (version {self.version})"

    def make(self, box_id: str, spec: BoxSpec) -> BoxCgroup:
        """Make a group with the limits of ``spec``. Raises `OSError`."""
        folders = tuple(root / box_id for root, _ in self._roots)
        group = BoxCgroup(folders)
        try:
            for folder, (_, hierarchy) in zip(folders, self._roots, strict=True):
                folder.mkdir()
                for name, value, must in _limits(hierarchy, spec):
                    try:
                        (folder / name).write_text(str(value))
                    except OSError:
                        if must:
                            raise
        except BaseException:
            group.remove()
            raise
        return group

    def close(self) -> None:
        """Remove the folders. The boxes' groups must have been removed before."""
        for root, _ in self._roots:
            with contextlib.suppress(OSError):
                root.rmdir()
        while self._locks:
            os.close(self._locks.pop())


def _bound_all(root: Path, hierarchy: CgroupHierarchy, together: int) -> None:
    """Set a limit on all boxes, a quarter above that of `MemoryLimit`. `MemoryLimit` chooses the
    right box to end. The kernel's limit holds between two measurements and ends the largest
    process. It also counts pages of the host's disk that boxes read, which the kernel drops
    first."""
    if together and "memory" in hierarchy.controllers:
        name = "memory.max" if hierarchy.version == 2 else "memory.limit_in_bytes"
        with contextlib.suppress(OSError):
            (root / name).write_text(str(together * 5 // 4))


def _make_room(hierarchy: CgroupHierarchy) -> None:
    """Version 2: a group that passes controllers on may not contain a process itself."""
    if hierarchy.version != 2:
        return
    inside = set() if is_real_root(hierarchy.folder) else members(hierarchy.folder)
    if inside:
        if not may_be_emptied(hierarchy.folder):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        bot = hierarchy.folder / "nekro-bot"
        bot.mkdir(exist_ok=True)
        for pid in inside:
            with contextlib.suppress(ProcessLookupError):
                (bot / "cgroup.procs").write_text(str(pid))
    _pass_on(hierarchy.folder, hierarchy.controllers)


def _pass_on(folder: Path, controllers: frozenset[str]) -> None:
    passed_on = set((folder / "cgroup.subtree_control").read_text().split())
    for name in sorted(controllers - passed_on):
        (folder / "cgroup.subtree_control").write_text(f"+{name}")


def _limits(hierarchy: CgroupHierarchy, spec: BoxSpec) -> Iterator[tuple[str, int, bool]]:
    """The limits to write: file, value, whether a failure to write it is an error."""
    # Files are in memory: home, and a quarter of its size each for /tmp and /dev/shm.
    memory = spec.memory_bytes + spec.disk_bytes * 3 // 2 + _MARGIN
    processes = spec.processes + _HELPERS
    if "memory" in hierarchy.controllers and hierarchy.version == 2:
        yield "memory.max", memory, True
        yield "memory.swap.max", 0, False
    elif "memory" in hierarchy.controllers:
        yield "memory.limit_in_bytes", memory, True
        yield "memory.memsw.limit_in_bytes", memory, False
        yield "memory.kmem.tcp.limit_in_bytes", spec.memory_bytes, False  # counted apart
    if "pids" in hierarchy.controllers:
        yield "pids.max", processes, True
    if "cpu" in hierarchy.controllers and hierarchy.version == 2:
        yield "cpu.weight", _WEIGHT, False
    elif "cpu" in hierarchy.controllers:
        yield "cpu.shares", _SHARES, False


def _sweep(mount: Path) -> None:
    """Remove the groups of bots that have ended: their locks are free. They may lie anywhere in the
    tree, since each login has its own group."""
    for folder, inner, _ in os.walk(mount):
        stale = [name for name in inner if name.startswith(_PREFIX)]
        inner[:] = [name for name in inner if name not in stale]
        for name in stale:
            _remove_unlocked(Path(folder, name))


def _remove_unlocked(root: Path) -> None:
    try:
        lock = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for folder in (*(path for path in root.iterdir() if path.is_dir()), root):
            folder.rmdir()
    except OSError:
        pass  # its owner lives, or one of its processes is still ending: the next start removes it
    finally:
        os.close(lock)
