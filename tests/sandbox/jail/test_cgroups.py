"""A cgroup sets the kernel's limits for a whole box. The tests check where a cgroup can be made,
what it contains, and the messages at a limit."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from nekro_core.sandbox.box import Backend, RunLimits, StopReason
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.jail.cgroup_trees import find_hierarchies
from nekro_core.sandbox.jail.defences import JailDefences
from nekro_core.sandbox.jail.interpreter import is_root
from nekro_core.sandbox.jail.layout import open_groups
from tests.sandbox.conftest import SMALL
from tests.sandbox.run_code import play

MIB = 1024 * 1024


def groups_of(backend: Backend) -> tuple[Path, ...]:
    assert isinstance(backend, JailBackend)
    assert backend._layout
    if backend._layout.groups is None:
        pytest.skip(f"no groups here: {backend._layout.no_groups_because}")
    return backend._layout.groups.folders


@pytest.mark.jail
async def test_a_box_says_which_mechanism_limits_it(jail: Backend) -> None:
    box = await jail.create(SMALL)
    (started, *_) = (await jail.self_check()).checks
    assert box.bounded_by
    assert box.bounded_by in started.seen
    assert ("cgroup (version" in box.bounded_by) != ("watchdog" in box.bounded_by)
    await box.destroy()


@pytest.mark.jail
async def test_all_processes_of_a_box_are_in_its_cgroup_which_is_deleted_with_it(
    jail: Backend,
) -> None:
    folders = groups_of(jail)
    box = await jail.create(SMALL)
    run = await box.start_run([], _never)
    await run.feed("import os, time\nos.fork()\ntime.sleep(60)\n", 1)
    pids = set(jail.processes_of(box))  # type: ignore[attr-defined]
    for folder in folders:
        inside = set(map(int, (folder / box.box_id / "cgroup.procs").read_text().split()))
        assert pids <= inside
    limits = {
        path.name: path.read_text().strip()
        for folder in folders
        for path in (folder / box.box_id).iterdir()
        if path.name in ("pids.max", "memory.max", "memory.limit_in_bytes")
    }
    assert limits.pop("pids.max") == str(SMALL.processes + 3)
    assert set(limits.values()) == {str(192 * MIB + 24 * MIB + 32 * MIB)}
    await box.destroy()
    assert not any((folder / box.box_id).exists() for folder in folders)


async def _never(call: object) -> None:
    raise AssertionError(call)


@pytest.mark.jail
async def test_the_result_of_a_run_that_the_kernel_killed_for_memory_says_so(jail: Backend) -> None:
    groups_of(jail)
    box = await jail.create(SMALL)
    box.spec = replace(SMALL, memory_bytes=1 << 40)  # type: ignore[attr-defined]  # so that the watchdog does not end the run
    code = """
        import mmap
        kept = []
        while True:
            kept.append(mmap.mmap(-1, 10**7))
            kept[-1].write(b"x" * 10**7)
    """
    result = await play(box, code, RunLimits(seconds=60))
    assert result.stop is StopReason.OUT_OF_MEMORY
    # the supervisor or the watchdog reports it
    assert result.error.startswith("the code used more ")
    assert (await play(box, "print('next')")).output == "next\n"
    await box.destroy()


@pytest.mark.jail
async def test_without_a_cgroup_the_watchdog_has_the_same_limit(jail: Backend) -> None:
    assert isinstance(jail, JailBackend)
    box = await jail.create(SMALL, defences=JailDefences(group=False))
    code = """
        import os, time
        for _ in range(4):
            if os.fork() == 0:
                kept = b"x" * (100 * 1024**2)
                time.sleep(60)
        time.sleep(60)
    """
    assert (await play(box, code)).stop is StopReason.OUT_OF_MEMORY
    await box.destroy()


@pytest.mark.jail
@pytest.mark.parametrize("group", [True, False], ids=["group", "watchdog"])
async def test_memory_that_forks_share_counts_once(jail: Backend, group: bool) -> None:
    assert isinstance(jail, JailBackend)
    box = await jail.create(SMALL, defences=JailDefences(group=group))
    code = """
        import os, time
        shared = bytearray(os.urandom(60 * 1024**2))
        for _ in range(9):
            if os.fork() == 0:
                time.sleep(60)
        {then}
        time.sleep({seconds})
        print("done")
    """
    assert (await play(box, code.format(then="", seconds=0.5))).output == "done\n"
    # When each of these processes has its own copy, they use 240 MB together.
    wrote = "for child in range(3):\n            if os.fork() == 0:\n"
    wrote += "                shared = bytes(shared) + b'x'\n                time.sleep(60)"
    assert (await play(box, code.format(then=wrote, seconds=30))).stop is StopReason.OUT_OF_MEMORY
    await box.destroy()


# In which folders cgroups can be made. The tests make trees of folders like those of kernels and
# systemd.


class Machine:
    """Folders that replace ``/proc/self`` and the mounted cgroup trees."""

    def __init__(self, path: Path) -> None:
        self.proc = path / "proc"
        self.proc.mkdir()
        self.tree = path / "cgroup"
        self.tree.mkdir()
        (self.proc / "mountinfo").write_text("")
        (self.proc / "cgroup").write_text("")

    def mounted(self, kind: str, options: str = "rw", at: str = "") -> None:
        (self.tree / at).mkdir(exist_ok=True)
        line = f"30 24 0:26 / {self.tree / at} rw,nosuid - {kind} {kind} {options}\n"
        with (self.proc / "mountinfo").open("a") as file:
            file.write(line)

    def ours(self, controllers: str, path: str) -> None:
        with (self.proc / "cgroup").open("a") as file:
            file.write(f"0:{controllers}:{path}\n")

    def group(self, path: str, available: str = "", passed_on: str = "", members: str = "") -> None:
        folder = self.tree / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.controllers").write_text(available)
        (folder / "cgroup.subtree_control").write_text(passed_on)
        (folder / "cgroup.procs").write_text(members)
        if path:
            (folder / "cgroup.type").write_text("domain\n")


ALL = "cpuset cpu io memory pids"


def delegated_service(machine: Machine) -> None:
    machine.mounted("cgroup2")
    machine.ours("", "/nekro.service")
    machine.group("", ALL, ALL)
    machine.group("nekro.service", "cpu memory pids", "", f"{os.getpid()}\n")


def shared_session(machine: Machine) -> None:
    machine.mounted("cgroup2")
    machine.ours("", "/user.slice/session-1.scope")
    machine.group("", ALL, ALL)
    machine.group("user.slice", "memory pids", "memory pids")
    machine.group("user.slice/session-1.scope", "memory pids", "", f"{os.getpid()}\n1\n")


def shared_container(machine: Machine) -> None:
    machine.mounted("cgroup2", at="x")
    machine.ours("", "/")
    machine.group("x", ALL, "", f"{os.getpid()}\n1\n")


def container_of_its_own(machine: Machine) -> None:
    machine.mounted("cgroup2", at="x")
    machine.ours("", "/")
    machine.group("x", "memory pids", "", f"{os.getpid()}\n")


def without_controllers(machine: Machine) -> None:
    machine.mounted("cgroup2", at="unified")
    machine.ours("", "/")
    machine.group("unified", "hugetlb", "")


def version_1(machine: Machine) -> None:
    for at, names in (("memory", "memory"), ("pids", "pids"), ("cpu", "cpu,cpuacct")):
        machine.mounted("cgroup", f"rw,{names}", at=at)
        machine.ours(names, "/here")
        (machine.tree / at / "here").mkdir()


def memory_alone(machine: Machine) -> None:
    machine.mounted("cgroup", "rw,memory", at="memory")
    machine.ours("memory", "/")


def nothing(machine: Machine) -> None:
    machine.mounted("tmpfs")


@pytest.mark.parametrize(
    ("lay_out", "root", "folders"),
    [
        (delegated_service, False, {"nekro.service": {"memory", "pids", "cpu"}}),
        (shared_session, True, {"user.slice": {"memory", "pids"}}),
        (shared_container, True, {}),
        (container_of_its_own, True, {"x": {"memory", "pids"}}),
        (version_1, True, {"memory/here": {"memory"}, "pids/here": {"pids"}, "cpu/here": {"cpu"}}),
        (version_1, False, {}),
        (memory_alone, True, {}),
        (without_controllers, True, {}),
        (nothing, True, {}),
    ],
)  # fmt: skip
def test_the_folders_in_which_cgroups_can_be_made_are_found(
    tmp_path: Path,
    lay_out: Callable[[Machine], None],
    root: bool,
    folders: dict[str, set[str]],
) -> None:
    machine = Machine(tmp_path)
    lay_out(machine)
    found, reason = find_hierarchies(machine.proc, root=root)
    assert {str(one.folder.relative_to(machine.tree)): one.controllers for one in found} == folders
    assert bool(reason) == (not folders)


def test_a_tree_without_write_access_is_not_used(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    machine = Machine(tmp_path)
    delegated_service(machine)
    (machine.tree / "nekro.service" / "cgroup.procs").chmod(0o444)
    assert find_hierarchies(machine.proc, root=False)[0] == ()


def test_bots_that_start_at_the_same_moment_all_get_cgroups() -> None:
    if not find_hierarchies(root=is_root())[0]:
        pytest.skip("no cgroups can be made here")

    def start_and_end(_: int) -> str:
        groups, reason = open_groups()
        if groups is not None:
            groups.close()
        return reason

    with ThreadPoolExecutor(4) as starting:
        reasons = set(starting.map(start_and_end, range(120)))
    assert reasons == {""}
