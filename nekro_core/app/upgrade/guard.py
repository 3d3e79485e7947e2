"""Starts a new version of the bot, and the old version again if the new one does not answer.

``python -m nekro_core.app.upgrade.guard DATA COMMAND...`` runs in the process of the old version,
so a service manager or a terminal sees the same process. ``COMMAND`` is how the old version was
started. The guard imports little, because it stays beside the new version until that ends.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Protocol

import msgspec

from nekro_core.app.upgrade.order import State, UpgradeOrder, read_order, write_order
from nekro_core.app.upgrade.programs import environment_of_another_version

_LOOK_S = 0.05
_FREE_S = 20.0
"""Seconds to wait until processes of a killed version have ended. They usually end at once; on a
busy machine it may take longer."""
_END_S = 3.0
"""Seconds that a new version gets to end after it was given up; then it is killed. The old version
must answer within 10 s after that decision, and its start takes two to three."""


class Kept(Protocol):
    """The database as it was before the new version started."""

    def put_back(self) -> str:
        """Put the database back; return what the operator should know."""

    def forget(self) -> None:
        """Remove the kept database, because it is not needed any more."""


class UpgradeGuard:
    """The parent process of a new version.

    Args:
        data: The data folder.
        order: Which new version is wanted, and how long it may take to answer.
        old: The command of the old version.
    """

    def __init__(self, data: Path, order: UpgradeOrder, old: Sequence[str]) -> None:
        self._data = data
        self._order = order
        self._old = tuple(old)
        self._child: subprocess.Popen[bytes] | None = None
        self._ended = False

    def run(self) -> int:
        """Try the new version. Return the exit status of the new version when it has ended. This
        call does not return if the old version is started again."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._pass_on)
        # Ctrl-C in a terminal reaches the new version too: the guard waits for its end.
        signal.signal(signal.SIGINT, lambda *_: None)
        self._write("keeping")
        try:
            kept = self._keep()
        except Exception as error:  # noqa: BLE001 - the old version must start again, whatever it is
            return self._go_back(f"the database could not be kept as it is: {error}")
        self._write("trying")
        _say("the new version starts")
        reason = self._start()
        if not reason:
            kept.forget()
            self._write("done")
            return self._status()
        self._end_child()
        try:
            told = kept.put_back()
        except Exception as error:  # noqa: BLE001 - as above
            told = f"the database could not be put back: {error}"
        return self._go_back("; ".join(filter(None, (reason, told))))

    def _keep(self) -> Kept:
        from nekro_core.app.upgrade.kept_database import KeptFile, KeptTables  # noqa: PLC0415 - sqlite3

        if self._order.sqlite:
            return KeptFile(Path(self._order.sqlite))
        from nekro_core.app.settings import Settings  # noqa: PLC0415 - it imports most of the bot

        url = Settings.load().database_url
        return KeptTables(url, self._data / "copies" / "server-before-upgrade.dump")

    def _start(self) -> str:
        """Start the new version and wait until it answers. Return the reason if it does not answer,
        otherwise an empty text."""
        try:
            # Without -P, Python would import the code of this folder, which can be the old version.
            command = [self._order.python, "-P", "-m", "nekro_core", "run"]
            self._child = subprocess.Popen(  # noqa: S603 - our own arguments
                command, env=environment_of_another_version()
            )
        except OSError as error:
            return f"it cannot be started: {error}"
        until = time.monotonic() + self._order.within_s
        while not self._ended:
            if (status := self._child.poll()) is not None:
                return f"it ended with status {status} before it answered"
            if self._answers():
                return ""
            if time.monotonic() > until:
                return f"it did not answer within {self._order.within_s:g} s"
            time.sleep(_LOOK_S)
        return "the bot was asked to end before the new version answered"

    def _answers(self) -> bool:
        """Return whether the new version has written its address."""
        assert self._child is not None
        try:
            running = json.loads((self._data / "running.json").read_bytes())
        except (OSError, ValueError):
            return False
        return isinstance(running, dict) and running.get("pid") == self._child.pid

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        self._ended = True
        if self._child is not None:
            self._child.send_signal(number)

    def _end_child(self) -> None:
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _wait_until_free(self) -> None:
        """Wait until no process has the data folder locked. A version that was killed in the middle
        of its start may leave a process that it was just starting."""
        try:
            lock = os.open(self._data / "nekro.lock", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        until = time.monotonic() + _FREE_S
        while time.monotonic() < until:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_LOOK_S)
        os.close(lock)

    def _status(self) -> int:
        """Wait until the new version ends."""
        status = self._child.wait() if self._child is not None else 0
        return status if status >= 0 else 128 - status

    def _go_back(self, reason: str) -> int:
        self._write("back", reason)
        _say(f"the new version is given up: {reason}")
        if not self._ended:
            self._wait_until_free()
            _say("the old version starts again")
            os.execv(self._old[0], self._old)  # noqa: S606 - the command of the old version
        return 0

    def _write(self, state: State, reason: str = "") -> None:
        self._order = msgspec.structs.replace(self._order, state=state, reason=reason)
        try:
            write_order(self._data, self._order)
        except OSError as error:
            _say(f"{error}")  # The upgrade goes on; only the command does not hear of it.


def _say(sentence: str) -> None:
    sys.stderr.write(f"upgrade: {sentence}\n")
    sys.stderr.flush()


def main(arguments: Sequence[str]) -> int:
    """Run the guard, and return the exit status of the new version."""
    data, *old = arguments
    order = read_order(Path(data))
    if order is None:  # Somebody removed the file within the last tenth of a second.
        os.execv(old[0], old)  # noqa: S606 - as above
    return UpgradeGuard(Path(data), order, old).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
