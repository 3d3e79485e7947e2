"""The guard starts another version, and the old one again if the other does not answer. Small
programs stand for both versions."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from nekro_core.app.upgrade.order import (
    ORDER_FILE,
    UpgradeOrder,
    guard_command,
    read_order,
    write_order,
)

ANSWERS = """
import json, os, pathlib, sys, time
data = pathlib.Path({data!r})
(data / "running.json").write_text(json.dumps({{"pid": os.getpid()}}))
(data / "seen").write_text(" ".join(sys.argv[1:]))
time.sleep({seconds})
sys.exit(7)
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "nekro.sqlite3")) as database:
        database.execute("CREATE TABLE messages (seq INTEGER PRIMARY KEY)")
    return folder


def program(folder: Path, code: str) -> str:
    """An executable file that stands for the Python of an environment."""
    path = folder / "python"
    path.write_text(f"#!{sys.executable}\n{code}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def guard(
    data: Path,
    python: str,
    within_s: float = 20.0,
    old: str = "print('the old version', flush=True)",
) -> "subprocess.Popen[str]":
    order = UpgradeOrder(
        asked=time.time(), python=python, within_s=within_s, sqlite=str(data / "nekro.sqlite3")
    )
    write_order(data, order)
    command = guard_command(data, (sys.executable, "-c", old), time.time())
    assert command is not None
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=data.parent
    )


def wait_for(found: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not found():
        assert time.monotonic() < until
        time.sleep(0.02)


def state(data: Path) -> str:
    order = read_order(data)
    return order.state if order is not None else ""


def test_a_version_that_answers_stays_and_its_status_is_that_of_the_guard(data: Path) -> None:
    process = guard(data, program(data, ANSWERS.format(data=str(data), seconds=1)))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 7
    assert state(data) == "done"
    assert (data / "seen").read_text() == "-P -m nekro_core run"
    assert "the old version" not in out
    assert "given up" not in err


def test_the_new_version_does_not_inherit_pythonpath_and_the_old_one_keeps_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/of/the/old/version")
    code = f"import os; open({str(data / 'seen')!r}, 'w').write(str(os.environ.get('PYTHONPATH')))"
    old = "import os; print(os.environ['PYTHONPATH'], flush=True)"
    process = guard(data, program(data, code), old=old)
    out, _ = process.communicate(timeout=60)
    assert (data / "seen").read_text() == "None"
    assert out == "/of/the/old/version\n"


def test_a_version_that_ends_is_followed_by_the_old_one(data: Path) -> None:
    process = guard(data, program(data, "import sys; sys.exit(3)"))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "the old version\n")
    assert "it ended with status 3 before it answered" in err
    order = read_order(data)
    assert order is not None
    assert (order.state, order.reason) == ("back", "it ended with status 3 before it answered")


def test_a_version_that_cannot_be_started_is_followed_by_the_old_one(data: Path) -> None:
    process = guard(data, str(data / "missing"))
    out, err = process.communicate(timeout=60)
    assert out == "the old version\n"
    assert "it cannot be started" in err


def test_a_silent_version_that_ignores_sigterm_is_killed(data: Path) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
    process = guard(data, program(data, code), within_s=1.0)
    began = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert out == "the old version\n"
    assert "it did not answer within 1 s" in err
    assert time.monotonic() - began < 10


def test_the_old_version_starts_when_nobody_has_the_data_folder_locked_any_more(data: Path) -> None:
    (data / "nekro.lock").touch()
    code = f"""
import fcntl, os, sys, time
lock = open({str(data / "nekro.lock")!r})
fcntl.flock(lock, fcntl.LOCK_EX)
if os.fork() == 0:
    os.close(1)
    time.sleep(2)
sys.exit(3)
"""
    began = time.monotonic()
    process = guard(data, program(data, code))
    out, _ = process.communicate(timeout=60)
    assert out == "the old version\n"
    assert time.monotonic() - began > 2


def test_a_running_json_of_another_process_does_not_count_as_an_answer(data: Path) -> None:
    (data / "running.json").write_text('{"pid": 1}')
    process = guard(data, program(data, "import time; time.sleep(300)"), within_s=0.5)
    out, _ = process.communicate(timeout=60)
    assert out == "the old version\n"


def test_if_the_old_database_cannot_be_kept_the_new_version_is_not_started(data: Path) -> None:
    (data / "nekro.sqlite3").unlink()
    process = guard(data, program(data, ANSWERS.format(data=str(data), seconds=1)))
    out, err = process.communicate(timeout=60)
    assert out == "the old version\n"
    assert "the database could not be kept as it is" in err
    assert not (data / "seen").exists()


def test_while_the_guard_keeps_the_old_database_the_order_file_says_so_however_long_it_takes(
    data: Path,
) -> None:
    with closing(sqlite3.connect(data / "nekro.sqlite3", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO messages (seq) VALUES (1)")
        # The guard waits for this lock, to write the write-ahead log of the database into its file.
        process = guard(data, program(data, ANSWERS.format(data=str(data), seconds=1)))
        wait_for(lambda: state(data) == "keeping")
        assert not (data / "seen").exists()
        database.execute("ROLLBACK")
    process.communicate(timeout=60)
    assert (process.returncode, state(data)) == (7, "done")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_for_the_guard_ends_a_version_that_answers(
    data: Path, number: signal.Signals
) -> None:
    process = guard(data, program(data, ANSWERS.format(data=str(data), seconds=300)))
    wait_for(lambda: state(data) == "done")
    os.kill(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode == 128 + number


def test_a_signal_before_the_new_version_answers_ends_both_versions_and_starts_nothing(
    data: Path,
) -> None:
    process = guard(data, program(data, "import time; time.sleep(300)"))
    wait_for(lambda: state(data) == "trying")
    os.kill(process.pid, signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert "the bot was asked to end" in err
    assert state(data) == "back"


def test_only_a_fresh_upgrade_order_that_nobody_has_followed_is_followed(tmp_path: Path) -> None:
    assert guard_command(tmp_path, ("python",), 1000.0) is None
    order = UpgradeOrder(asked=1000.0, python="p", within_s=1.0)
    write_order(tmp_path, order)
    assert guard_command(tmp_path, ("python", "bot.py"), 1001.0) == (
        *("python", "-P", "-m", "nekro_core.app.upgrade.guard", str(tmp_path)),
        *("python", "bot.py"),
    )
    of_checkout = ("python", "-m", "nekro_core", "run")
    assert guard_command(tmp_path, of_checkout, 1001.0) == (
        *("python", "-m", "nekro_core.app.upgrade.guard", str(tmp_path)),
        *of_checkout,
    ), "code that is not installed, but found in the folder of the bot"
    assert guard_command(tmp_path, ("python",), 2000.0) is None
    write_order(tmp_path, UpgradeOrder(asked=1000.0, python="p", within_s=1.0, state="done"))
    assert guard_command(tmp_path, ("python",), 1001.0) is None
    (tmp_path / ORDER_FILE).write_text("{")
    assert guard_command(tmp_path, ("python",), 1001.0) is None
    (tmp_path / ORDER_FILE).unlink()
    # Root can read each file, so a folder stands for a file that cannot be read.
    (tmp_path / ORDER_FILE).mkdir()
    assert guard_command(tmp_path, ("python",), 1001.0) is None
