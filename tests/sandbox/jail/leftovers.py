"""Makes and destroys many boxes, and checks what they leave in this process and on this machine.

``python -m tests.sandbox.jail.leftovers 1000`` does with 1000 boxes what the tests do with 50.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import anyio

from nekro_core.sandbox.box import Backend
from nekro_core.sandbox.jail import process_tree
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.settings import SandboxSettings
from tests.sandbox.conftest import SMALL
from tests.sandbox.run_code import Tools, play

_AT_ONCE = 4


@dataclass(frozen=True, kw_only=True)
class Traces:
    """Counts and names of what boxes could leave behind."""

    descriptors: int
    processes: frozenset[int]
    mounts: tuple[str, ...]
    groups: frozenset[Path]
    files: frozenset[Path]
    user_ids: int

    def more_than(self, before: "Traces") -> str:
        """How much more there is than before, by kind."""
        more = {
            "descriptors": self.descriptors - before.descriptors,
            "processes": len(self.processes - before.processes),
            "mounts": len(self.mounts) - len(before.mounts),
            "cgroups": len(self.groups - before.groups),
            "files and folders": len(self.files - before.files),
            "user ids": self.user_ids - before.user_ids,
        }
        return ", ".join(f"{count} {kind}" for kind, count in more.items())

    def adds_nothing_to(self, before: "Traces") -> bool:
        """Return whether there is nothing more than before. What an earlier test of the process has
        left may go away meanwhile."""
        return (
            self.descriptors <= before.descriptors
            and self.processes <= before.processes
            and {*self.mounts} <= {*before.mounts}
            and self.groups <= before.groups
            and self.files <= before.files
            and self.user_ids <= before.user_ids
        )

    @classmethod
    def of(cls, backend: JailBackend, runtime_dir: Path) -> "Traces":
        groups = backend._layout.groups if backend._layout else None
        return cls(
            descriptors=sum(1 for _ in Path("/proc/self/fd").iterdir()),
            processes=frozenset(process_tree.descendants(os.getpid())),
            mounts=tuple(mounts(runtime_dir)),
            groups=frozenset(
                path
                for root in (groups.folders if groups else ())
                for path in root.iterdir()
                if path.is_dir()
            ),
            files=frozenset(runtime_dir.rglob("*")),
            user_ids=len(backend._user_ids._taken),
        )


def mounts(runtime_dir: Path) -> Iterable[str]:
    """The mounts of this namespace that belong to boxes."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if str(runtime_dir) in line or "newroot" in line:
            yield line


async def come_and_go(backend: Backend, count: int) -> None:
    """Make boxes, start processes and runs in some of them, and destroy them."""
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def one(number: int) -> None:
        async with limiter:
            box = await backend.create(SMALL)
            if number % 3 == 0:
                await play(box, "import subprocess\nsubprocess.Popen(['sleep', '1000'])")
                await box.write_file("/app/uploads/a.txt", b"a")
            elif number % 3 == 1:
                run = await box.start_run([], Tools({}).handle)
                await run.feed("import os\nos.fork()\nwhile True: pass\n", 1)
            await box.destroy()

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(one, number)


async def nothing_is_left(backend: JailBackend, runtime_dir: Path, before: Traces) -> None:
    """Check that nothing was left. Wait up to 5 s, because the event loop closes some objects
    late."""
    with anyio.move_on_after(5):
        while not Traces.of(backend, runtime_dir).adds_nothing_to(before):
            await anyio.sleep(0.05)
    after = Traces.of(backend, runtime_dir)
    assert after.adds_nothing_to(before), after.more_than(before)


async def _main(count: int) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        async with anyio.create_task_group() as tasks:
            backend = JailBackend(SandboxSettings(packages=False, runtime_dir=folder), tasks)
            await come_and_go(backend, 1)  # the first box makes files for all boxes, which stay
            before = Traces.of(backend, folder)
            began = time.monotonic()
            await come_and_go(backend, count)
            seconds = time.monotonic() - began
            after = Traces.of(backend, folder)
            await backend.aclose()
            tasks.cancel_scope.cancel()
    print(f"{count} boxes in {seconds:.0f} s, {seconds / count * 1000:.0f} ms each")
    print(f"left: {after.more_than(before)}")
    return int(not after.adds_nothing_to(before))


if __name__ == "__main__":
    sys.exit(anyio.run(_main, int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
