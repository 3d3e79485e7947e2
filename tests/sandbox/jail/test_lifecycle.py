"""Boxes leave nothing behind, in whatever way they end."""

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from nekro_core.sandbox.backends import open_backend
from nekro_core.sandbox.box import Backend, BackendUnavailable, Box
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.jail.interpreter import ProcessIdentity, find_dropper
from nekro_core.sandbox.jail.process import JailProcesses
from nekro_core.sandbox.jail.user_ids import mapped_user_ids
from nekro_core.sandbox.settings import BackendName, SandboxSettings
from tests.sandbox.conftest import SMALL
from tests.sandbox.jail.leftovers import Traces, come_and_go, mounts, nothing_is_left
from tests.sandbox.run_code import Tools, play

pytestmark = [pytest.mark.jail, pytest.mark.long]

JAIL = SandboxSettings(backend=BackendName.JAIL)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user may enter. The folders that pytest makes can be entered only by
    root."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


async def test_fifty_destroyed_boxes_leave_nothing_behind(open_folder: Path) -> None:
    async with anyio.create_task_group() as tasks:
        backend = JailBackend(SandboxSettings(packages=False, runtime_dir=open_folder), tasks)
        gc.collect()  # closes descriptors that other tests' objects still have
        before = Traces.of(backend, open_folder)
        # the first box makes files for all boxes, which stay until the end
        await come_and_go(backend, 1)
        first = Traces.of(backend, open_folder)
        await come_and_go(backend, 50)
        await nothing_is_left(backend, open_folder, first)
        last = await backend.create(SMALL)
        await backend.aclose()
        assert not last.alive
        tasks.cancel_scope.cancel()
    await nothing_is_left(backend, open_folder, before)


def tree(backend: Backend, box: Box) -> list[int]:
    assert isinstance(backend, JailBackend)
    return backend.processes_of(box)[1:]


BUSY = (
    "import os, time\nif os.fork(): ready()\ntime.sleep(1000)\n",
    "ready()\n",
    "import os\nif os.fork(): ready()\nwhile True: pass\n",
    "import signal\nfor n in range(1, 9): signal.signal(n, signal.SIG_IGN)\nready()\n",
)
"""Code that keeps a box busy. Each of these programs must be ended in a different way."""

BOT = """
import json, sys
from pathlib import Path
import anyio
from nekro_core.sandbox.box import GuestFunction
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.settings import SandboxSettings
from tests.sandbox.conftest import SMALL
from tests.sandbox.jail.test_lifecycle import BUSY

async def main():
    async with anyio.create_task_group() as tasks:
        backend = JailBackend(SandboxSettings(runtime_dir=Path(sys.argv[1])), tasks)
        waiting = anyio.Semaphore(0)
        async def handler(call):
            waiting.release()
            await anyio.sleep_forever()
        boxes = [await backend.create(SMALL) for _ in range(20)]
        for number, box in enumerate(boxes):
            await box.write_file("/app/uploads/a.txt", b"of a chat")
            run = await box.start_run([GuestFunction(names=("ready",))], handler)
            await run.feed(BUSY[number % len(BUSY)], 1)
        for _ in boxes:
            await waiting.acquire()
        groups = backend._layout.groups
        print(json.dumps([str(folder) for folder in groups.folders] if groups else []))
        print(json.dumps(sum(map(backend.processes_of, boxes), [])), flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


async def test_twenty_busy_boxes_die_with_a_bot_that_is_killed(open_folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BOT, str(open_folder)], stdout=subprocess.PIPE
    ) as bot:
        try:
            assert bot.stdout is not None
            groups = [Path(folder) for folder in json.loads(bot.stdout.readline())]
            pids = json.loads(bot.stdout.readline())
        finally:
            began = time.monotonic()
            bot.kill()
    assert len(pids) >= 60
    while (alive := [pid for pid in pids if is_alive(pid)]) and time.monotonic() - began < 30:
        time.sleep(0.01)
    seconds = time.monotonic() - began
    assert not alive
    while (mounted := list(mounts(open_folder))) and time.monotonic() - began < 30:
        time.sleep(0.01)
    assert not mounted
    assert all(len(list(folder.glob("*/cgroup.procs"))) == 20 for folder in groups)
    print(f"{len(pids)} processes of 20 busy boxes were gone {seconds * 1000:.0f} ms after kill -9")
    # The next process deletes what the killed one could not delete.
    async with anyio.create_task_group() as tasks:
        backend = JailBackend(SandboxSettings(packages=False, runtime_dir=open_folder), tasks)
        await (await backend.create(SMALL)).destroy()
        assert len(list(open_folder.iterdir())) == 1
        await backend.aclose()
        tasks.cancel_scope.cancel()
    assert not list(open_folder.iterdir())
    assert not any(folder.exists() for folder in groups)


def is_alive(pid: int) -> bool:
    """Return True if a process runs. A zombie does not count, because it only waits for init."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


async def test_when_the_supervisor_dies_its_run_ends_as_died_and_the_box_is_lost(
    jail: Backend,
) -> None:
    box = await jail.create(SMALL)
    run = await box.start_run([], Tools({}).handle)
    await run.feed("import time\ntime.sleep(60)\n", 1)
    await anyio.sleep(0.1)
    os.kill(tree(jail, box)[0], signal.SIGKILL)
    with anyio.fail_after(30):
        result = await run.finish()
    assert result.stop.value == "died"
    assert "the box was lost" in result.error
    assert not box.alive
    await box.destroy()


async def test_a_box_whose_supervisor_hangs_is_torn_down(jail: Backend) -> None:
    box = await jail.create(SMALL)
    run = await box.start_run([], Tools({}).handle)
    await run.feed("while True: pass\n", 1)
    os.kill(tree(jail, box)[0], signal.SIGSTOP)
    with anyio.fail_after(30):
        result = await run.cancel()
    assert result.stop.value == "cancelled"
    assert not box.alive
    await box.destroy()


def test_boxes_can_be_made_only_in_the_main_thread() -> None:
    caught: list[BaseException] = []

    def start() -> None:
        try:
            JailProcesses.start(["true"], identity=None, descriptors=(), free=lambda: None)  # type: ignore[arg-type]
        except BackendUnavailable as error:
            caught.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in str(caught[0])


async def test_the_error_names_a_runtime_folder_that_boxes_cannot_enter(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("an ordinary user's boxes are its own")
    tmp_path.chmod(0o700)
    async with anyio.create_task_group() as tasks:
        with pytest.raises(BackendUnavailable, match="any user may enter"):
            await open_backend(JAIL.model_copy(update={"runtime_dir": tmp_path}), tasks)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"interpreter": Path("/nowhere/python3")}, "NEKRO_SANDBOX__INTERPRETER"),
        ({"interpreter": Path("/bin/false")}, "no Python that the boxes' user can run"),
        ({"runtime_dir": Path("/nowhere")}, "NEKRO_SANDBOX__RUNTIME_DIR"),
        ({"memory_mb": 64, "processes": 8, "uid_start": 2**31, "uid_count": 5}, "UID_START"),
        ({"uid_start": 5000, "uid_count": 5}, "set it to 100000 or more"),
    ],
)
async def test_wrong_settings_are_reported_with_a_remedy(
    wrong: dict[str, object], words: str
) -> None:
    settings = JAIL.model_copy(update=wrong)
    if settings.uid_start and os.geteuid() != 0:
        pytest.skip("user ids are given by root alone")
    if settings.uid_start == 5000 and mapped_user_ids()[1] < 200_000:
        pytest.skip("without higher user ids, low ones may be used")
    async with anyio.create_task_group() as tasks:
        with pytest.raises(BackendUnavailable) as caught:
            await open_backend(settings, tasks)
        tasks.cancel_scope.cancel()
    assert words in str(caught.value)


async def test_secrets_of_the_host_are_not_in_a_box(
    jail: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEKRO_SECRET", "canary-1234")
    box = await jail.create(SMALL)
    code = """
        import os, pathlib
        print(dict(os.environ).get("NEKRO_SECRET"))
        for path in pathlib.Path("/proc").glob("[0-9]*/*"):
            if path.name in ("environ", "cmdline"):
                try:
                    print("canary-1234" in path.read_text())
                except OSError:
                    pass
    """
    output = (await play(box, code)).output
    await box.destroy()
    assert "None" in output
    assert "True" not in output


async def test_an_idle_box_frees_its_memory_and_still_works(open_folder: Path) -> None:
    settings = SandboxSettings(runtime_dir=open_folder, rest_seconds=0.3)
    async with anyio.create_task_group() as tasks:
        backend = JailBackend(settings, tasks)
        box = await backend.create(SMALL)
        await play(box, "open('kept', 'w').write('a file')")
        supervisor = tree(backend, box)[0]
        with anyio.fail_after(30):
            while len(tree(backend, box)) > 1 or "restarted" not in cmdline(supervisor):
                await anyio.sleep(0.05)
        for _ in range(2):
            assert (await play(box, "print(open('kept').read())")).output == "a file\n"
        assert (await box.execute("cat kept")).exit_code == 0
        assert tree(backend, box)[0] == supervisor
        await backend.aclose()
        tasks.cancel_scope.cancel()


def cmdline(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has nothing to give up")
async def test_boxes_drop_root_without_a_helper_program(jail: Backend) -> None:
    assert isinstance(jail, JailBackend)
    layout = jail._layout
    assert layout is not None
    jail._layout = replace(layout, dropper="")
    try:
        checked = await jail.self_check()
    finally:
        jail._layout = layout
    assert checked.ok, checked
    assert find_dropper(ProcessIdentity()) == ""
