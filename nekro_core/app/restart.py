"""Restarts the bot in place: the process ends everything and then starts the same command again."""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Self

from loguru import logger

from nekro_core.app.settings import Settings
from nekro_core.app.upgrade.order import guard_command

RESTART_SIGNAL = signal.SIGUSR2
"""The signal with which `nekro restart` restarts the bot; other servers use the same signal."""


@dataclass(frozen=True, slots=True)
class StartedCommand:
    """How this process was started.

    The environment is stored as it was at the start, because plugins may change it. The next
    process would treat these changes as the operator's settings.
    """

    arguments: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]

    @classmethod
    def of_this_process(cls) -> Self:
        """Return the command of this process. Call this before plugins are loaded."""
        return cls((sys.executable, *sys.orig_argv[1:]), Path.cwd(), dict(os.environ))

    def start_again(self, data: Path) -> NoReturn:
        """Replace this process by a new one with the same process id. Call this when all parts of
        the bot have ended. If an upgrade is wanted, the new process starts the other version;
        ``data`` is the data folder. Raises `OSError`."""
        arguments = guard_command(data, self.arguments, time.time()) or self.arguments
        # Let the new process ignore the signal until it has its own handler. Without this line, an
        # early signal would end the new process.
        signal.signal(RESTART_SIGNAL, signal.SIG_IGN)
        sys.stdout.flush()
        sys.stderr.flush()
        os.chdir(self.folder)
        os.execve(sys.executable, arguments, self.environment)  # noqa: S606 - our own command


class Restarter:
    """Restarts the bot for the operator. The next process resumes the turns that ran, as after a
    crash.

    Args:
        folder: The folder with ``.env``.
        end: Lets the bot end and start again. It returns at once.
    """

    def __init__(self, folder: Path, end: Callable[[], None]) -> None:
        self._folder = folder
        self._end = end

    def restart(self) -> None:
        """Begin the restart. Raises `SettingsError` if the bot could not start again with the
        present settings; then the bot keeps running."""
        Settings.load(self._folder)
        logger.info("the bot ends, to start again")
        self._end()
