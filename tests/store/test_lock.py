"""Only one process may use a data folder."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nekro_core.store import DataFolderInUse, DataFolderLock

HOLD = """
import sys, pathlib
from nekro_core.store import DataFolderLock
with DataFolderLock(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_start_is_refused_with_the_process_id_of_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(DataFolderInUse, match=f"process {other.pid}, since") as caught:
            DataFolderLock(folder).__enter__()
        assert caught.value.pid == other.pid
        assert caught.value.since is not None
        other.kill()
    # The kernel released the lock of the killed process.
    with DataFolderLock(folder, clock=lambda: 5.0):
        assert f'"pid": {os.getpid()}' in (folder / "nekro.lock").read_text()


def test_a_lock_whose_file_names_no_process_is_respected(tmp_path: Path) -> None:
    with DataFolderLock(tmp_path):
        (tmp_path / "nekro.lock").write_text("")
        with pytest.raises(DataFolderInUse, match="another process"):
            DataFolderLock(tmp_path).__enter__()
    with DataFolderLock(tmp_path):
        pass


LEAVE_A_CHILD = """
import os, sys, pathlib, time
from nekro_core.store import DataFolderLock
with DataFolderLock(pathlib.Path(sys.argv[1])):
    owner = os.getpid()
    if os.fork() == 0:
        while os.getppid() == owner:
            time.sleep(0.01)
        print("held", flush=True)
        sys.stdin.read()  # until the other end of it is closed
        os._exit(0)
    os.kill(os.getpid(), 9)
"""


def test_a_start_waits_for_a_child_process_that_holds_the_lock_of_a_killed_bot(
    tmp_path: Path,
) -> None:
    """Between fork and exec, the child has the open files of the bot, and thus also its lock."""
    with subprocess.Popen(
        [sys.executable, "-c", LEAVE_A_CHILD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        leaving = threading.Timer(0.2, other.stdin.close)
        leaving.start()
        with DataFolderLock(tmp_path):
            leaving.join()
