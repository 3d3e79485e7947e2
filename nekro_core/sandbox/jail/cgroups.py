"""Makes a cgroup for each box. With a cgroup, the kernel limits the memory, the number of processes
and the processor share of all processes of the box together.

This process can make a group of version 2 in a part of the tree that is delegated to it (systemd's
``Delegate=yes``). As root it can also make a group in each part of the tree whose controllers are
enabled for child groups. A group of version 1 needs root. If no group can be made, only the
watchdog limits the box. Sources: the kernel's ``cgroup-v2.rst`` and ``cgroup-v1/memory.rst``.
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
"""Bytes of memory that supervisor, launcher and interpreter need. The group's memory limit is the
box's limit plus this size. The watchdog adds the same size."""
_HELPERS = 3
"""The number of processes that is added to the limit of a box. They are the launcher, the
supervisor, and the process that is forked in advance for the next run."""
_SHARES = 512
_WEIGHT = 50
"""The processor share of a box is half of a group's default: `_SHARES` in the unit of version 1,
`_WEIGHT` in the unit of version 2."""
_TRIES = 20


class BoxCgroup:
    """The group of one box. ``folders`` has the group's folder in each hierarchy."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders
        self._killed = 0

    def add(self, tree: Callable[[], Iterable[int]]) -> None:
        """Move a box's processes into the group, including processes that they fork during this
        call. ``tree`` returns the ids of the processes that the box has now. Raises `OSError`."""
        for folder in self._folders:
            for _ in range(_TRIES):
                outside = set(tree()) - members(folder)
                if not outside:
                    break
                for pid in outside:
                    with contextlib.suppress(ProcessLookupError):
                        (folder / "cgroup.procs").write_text(str(pid))

    def starved(self) -> bool:
        """Return True if the kernel killed a process of the group for lack of memory since the last
        call."""
        before, self._killed = self._killed, self._kills()
        return self._killed > before

    def remove(self) -> None:
        """Delete the group. If the kernel refuses to delete a folder of the group, the folder
        stays."""
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
    """The folders in which one backend makes the groups of its boxes. The backend locks each of
    these folders while it is open."""

    version: int
    controllers: frozenset[str]
    _roots: tuple[tuple[Path, CgroupHierarchy], ...]
    _locks: list[int] = field(default_factory=list)

    @classmethod
    def open(cls, hierarchies: Iterable[CgroupHierarchy], together: int = 0) -> "CgroupManager":
        """Make the folders, and remove folders that were left by processes that have ended.
        ``together`` is how many bytes of memory all boxes together may use; 0 means no limit.
        Raises `OSError`."""
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
        """The folders that have the groups of the boxes."""
        return tuple(root for root, _ in self._roots)

    def describe(self) -> str:
        """Say, for operators, which resources the groups limit."""
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
        """Remove the folders. The caller must have removed the boxes' groups before."""
        for root, _ in self._roots:
            with contextlib.suppress(OSError):
                root.rmdir()
        while self._locks:
            os.close(self._locks.pop())


def _bound_all(root: Path, hierarchy: CgroupHierarchy, together: int) -> None:
    """Have the kernel limit the memory of all boxes together to 5/4 of ``together`` bytes, which is
    the limit of `MemoryLimit`. Does nothing if ``together`` is 0.

    `MemoryLimit` chooses better which work to end, but it acts only after a measurement.
    The kernel's limit also holds between two measurements. At this limit the kernel kills the
    process that uses most. The kernel also counts its cache of files that boxes read from the
    host's disk, but it drops this cache before it kills a process.
    """
    if together and "memory" in hierarchy.controllers:
        name = "memory.max" if hierarchy.version == 2 else "memory.limit_in_bytes"
        with contextlib.suppress(OSError):
            (root / name).write_text(str(together * 5 // 4))


def _make_room(hierarchy: CgroupHierarchy) -> None:
    """Enable the group's controllers for its child groups. This is for version 2 only.

    The kernel refuses this while the group itself has processes. So this process and its children
    first move into a child group. Raises `OSError` if the group has other processes too.
    """
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
    """Yield for each limit the file to write, the value, and whether an error is fatal."""
    # Files in the home folder, /tmp and /dev/shm count as memory. /tmp and /dev/shm each have a
    # quarter of the home folder's size.
    memory = spec.memory_bytes + spec.disk_bytes * 3 // 2 + _MARGIN
    processes = spec.processes + _HELPERS
    if "memory" in hierarchy.controllers and hierarchy.version == 2:
        yield "memory.max", memory, True
        yield "memory.swap.max", 0, False
    elif "memory" in hierarchy.controllers:
        yield "memory.limit_in_bytes", memory, True
        yield "memory.memsw.limit_in_bytes", memory, False
        # The memory limit of version 1 does not include the buffers of TCP sockets.
        yield "memory.kmem.tcp.limit_in_bytes", spec.memory_bytes, False
    if "pids" in hierarchy.controllers:
        yield "pids.max", processes, True
    if "cpu" in hierarchy.controllers and hierarchy.version == 2:
        yield "cpu.weight", _WEIGHT, False
    elif "cpu" in hierarchy.controllers:
        yield "cpu.shares", _SHARES, False


def _sweep(mount: Path) -> None:
    """Remove groups that were left by bots that have ended. Such groups are not locked. The whole
    tree is searched, because each bot may have made its groups in a different place: each login
    session has its own group."""
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
        # The group's bot or a process in the group still runs. A later start of a bot removes the
        # group.
        pass
    finally:
        os.close(lock)
