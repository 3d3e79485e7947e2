"""Limits that the kernel keeps for the whole tree of a box: memory, processes, processor share.

A group is made where this process may make one: version 2 in a part of the tree that is delegated
to it (systemd's ``Delegate=yes``) or, as root, in any whose controllers are passed on; version 1 as
root. Elsewhere the watchdog alone bounds the tree. Sources: the kernel's ``cgroup-v2.rst`` and
``cgroup-v1/memory.rst``.
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
from nekro_core.sandbox.jail import process_tree

_PREFIX = "nekro-boxes-"
_NEEDED = frozenset({"memory", "pids"})
_WANTED = ("memory", "pids", "cpu")
_MARGIN = 32 * 1024 * 1024
"""What agent, launcher and interpreter use themselves; as the watchdog's."""
_HELPERS = 3
"""Processes that are none of the guest's: launcher, agent, and the run that is forked ahead."""
_SHARES = 512
_WEIGHT = 50
"""Half of what everything else has, in the units of version 1 and of version 2."""
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A mounted tree of groups: the folder of our own group in it, and what it controls there."""

    version: int
    mount: Path
    folder: Path
    controllers: frozenset[str]


class CGroup:
    """The group of one box. ``folders`` has one for each hierarchy."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders
        self._killed = 0

    def add(self, tree: Callable[[], Iterable[int]]) -> None:
        """Move a box's processes in, and those that they fork meanwhile. Raises `OSError`."""
        for folder in self._folders:
            for _ in range(_TRIES):
                outside = set(tree()) - _members(folder)
                if not outside:
                    break
                for pid in outside:
                    with contextlib.suppress(ProcessLookupError):
                        (folder / "cgroup.procs").write_text(str(pid))

    def starved(self) -> bool:
        """Whether the kernel killed something in it for memory since this was last asked."""
        before, self._killed = self._killed, self._kills()
        return self._killed > before

    def remove(self) -> None:
        """Delete it; its processes are gone or just going."""
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
class CGroups:
    """The folders under which one backend makes its boxes' groups, each locked while it lives."""

    version: int
    controllers: frozenset[str]
    _roots: tuple[tuple[Path, Hierarchy], ...]
    _locks: list[int] = field(default_factory=list)

    @classmethod
    def open(cls, hierarchies: Iterable[Hierarchy]) -> "CGroups":
        """Make the folders, and remove those of processes that are gone. Raises `OSError`."""
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
            opened.make("probe", BoxSpec()).remove()
        except BaseException:
            opened.close()
            raise
        return opened

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where the boxes' groups lie."""
        return tuple(root for root, _ in self._roots)

    def describe(self) -> str:
        """What it bounds, in words."""
        return f"{', '.join(sorted(self.controllers))} by a cgroup (version {self.version})"

    def make(self, box_id: str, spec: BoxSpec) -> CGroup:
        """A group with the limits of ``spec``. Raises `OSError`."""
        folders = tuple(root / box_id for root, _ in self._roots)
        group = CGroup(folders)
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
        """Remove the folders; the boxes' groups are removed already."""
        for root, _ in self._roots:
            with contextlib.suppress(OSError):
                root.rmdir()
        while self._locks:
            os.close(self._locks.pop())


def find_hierarchies(
    proc: Path = Path("/proc/self"), *, root: bool
) -> tuple[tuple[Hierarchy, ...], str]:
    """Where groups with memory and process limits can be made, or why nowhere."""
    mounts = list(_mounts((proc / "mountinfo").read_text()))
    ours = dict(_memberships((proc / "cgroup").read_text()))
    if "" in ours:
        for kind, options, inside, at in mounts:
            if kind == "cgroup2" and (found := _version_2(_own(ours[""], inside, at), at)):
                return (found,), ""
            del options
    if not root:
        return (), "no part of a cgroup tree is delegated to this user"
    found_1: dict[Path, Hierarchy] = {}
    for kind, options, inside, at in mounts:
        controllers = frozenset(_WANTED) & set(options)
        if kind == "cgroup" and controllers:
            folder = _own(ours.get(next(iter(controllers)), "/"), inside, at)
            if os.access(folder, os.W_OK):
                found_1[at] = Hierarchy(1, at, folder, controllers)
    if found_1 and frozenset().union(*(one.controllers for one in found_1.values())) >= _NEEDED:
        return tuple(found_1.values()), ""
    return (), "no writable cgroup tree has the memory and pids controllers"


def _version_2(own: Path, at: Path) -> Hierarchy | None:
    """The nearest group at or above ours that may have children with limits."""
    for folder in (own, *own.parents):
        if not folder.is_relative_to(at) or not os.access(folder / "cgroup.procs", os.W_OK):
            return None
        try:
            available = frozenset((folder / "cgroup.controllers").read_text().split())
            passed_on = frozenset((folder / "cgroup.subtree_control").read_text().split())
        except OSError:
            return None
        ours = folder == own and _may_be_emptied(folder)
        usable = available if ours or _is_real_root(folder) else passed_on
        if usable >= _NEEDED:
            return Hierarchy(2, at, folder, usable & frozenset(_WANTED))
    return None


def _may_be_emptied(folder: Path) -> bool:
    """Whether only this process and its own are in a group: then they can move into a child."""
    return _members(folder) <= set(process_tree.descendants(os.getpid()))


def _is_real_root(folder: Path) -> bool:
    """The one group that may have both processes and children with limits."""
    return not (folder / "cgroup.type").exists()


def _make_room(hierarchy: Hierarchy) -> None:
    """Version 2: a group that passes controllers on may have no process of its own."""
    if hierarchy.version != 2:
        return
    inside = set() if _is_real_root(hierarchy.folder) else _members(hierarchy.folder)
    if inside:
        if not _may_be_emptied(hierarchy.folder):
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


def _limits(hierarchy: Hierarchy, spec: BoxSpec) -> Iterator[tuple[str, int, bool]]:
    """What to write: file, value, whether the box cannot do without."""
    # Files are memory: home, and a quarter each for /tmp and /dev/shm.
    memory = spec.memory_bytes + spec.disk_bytes * 3 // 2 + _MARGIN
    processes = spec.processes + _HELPERS
    if "memory" in hierarchy.controllers and hierarchy.version == 2:
        yield "memory.max", memory, True
        yield "memory.swap.max", 0, False
    elif "memory" in hierarchy.controllers:
        yield "memory.limit_in_bytes", memory, True
        yield "memory.memsw.limit_in_bytes", memory, False
    if "pids" in hierarchy.controllers:
        yield "pids.max", processes, True
    if "cpu" in hierarchy.controllers and hierarchy.version == 2:
        yield "cpu.weight", _WEIGHT, False
    elif "cpu" in hierarchy.controllers:
        yield "cpu.shares", _SHARES, False


def _members(folder: Path) -> set[int]:
    try:
        return set(map(int, (folder / "cgroup.procs").read_text().split()))
    except OSError:
        return set()


def _sweep(mount: Path) -> None:
    """Remove the groups of bots that are gone: nobody holds their lock. Theirs can lie anywhere,
    since each login has a group of its own."""
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
        pass  # its owner lives, or a process of it is still going: the next start does it
    finally:
        os.close(lock)


def _mounts(text: str) -> Iterator[tuple[str, list[str], str, Path]]:
    """Kind, options of the file system, what of it is mounted, and where: `man 5 proc`."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            _, _, _, inside, at, *_ = before.split(" ")
            yield kind, options.split(","), inside, Path(at)


def _memberships(text: str) -> Iterator[tuple[str, str]]:
    """Each controller with our group's path; version 2 has the controller ``""``."""
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            yield name, path


def _own(path: str, inside: str, at: Path) -> Path:
    """Where our group is seen: in a container the mount may show a part of the tree only."""
    with contextlib.suppress(ValueError):
        return at / Path(path).relative_to(inside)
    return at
