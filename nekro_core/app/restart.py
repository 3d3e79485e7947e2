"""Restarts the bot in place: the process ends everything and then starts the same command again."""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Self

from loguru import logger

from nekro_core.app.settings import Settings

RESTART_SIGNAL = signal.SIGUSR2
"""The signal with which `nekro restart` restarts the bot; other servers use the same one."""


@dataclass(frozen=True, slots=True)
class StartedCommand:
    """How this process was started.

    The environment is kept as it was, because plugins may change it: the next process would take
    their changes for the operator's.
    """

    arguments: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]

    @classmethod
    def of_this_process(cls) -> Self:
        """Return it. Call this before plugins are loaded."""
        return cls((sys.executable, *sys.orig_argv[1:]), Path.cwd(), dict(os.environ))

    def start_again(self) -> NoReturn:
        """Replace this process by a new one, with the same process id. Call this when nothing of
        the bot runs any more. Raises `OSError`."""
        # The signal would end a process that does not handle it yet. The next process handles it as
        # soon as it can.
        signal.signal(RESTART_SIGNAL, signal.SIG_IGN)
        sys.stdout.flush()
        sys.stderr.flush()
        os.chdir(self.folder)
        os.execve(sys.executable, self.arguments, self.environment)  # noqa: S606 - our own command


class Restarter:
    """Restarts the bot for the operator. Turns in flight are resumed by the next process, as after
    a crash.

    Args:
        folder: The folder with ``.env``.
        end: Lets the bot end and start again. It returns at once.
    """

    def __init__(self, folder: Path, end: Callable[[], None]) -> None:
        self._folder = folder
        self._end = end

    def restart(self) -> None:
        """Begin the restart. Raises `SettingsError` if the settings are wrong, so that the bot
        could not start again; then it goes on."""
        Settings.load(self._folder)
        logger.info("the bot ends, to start again")
        self._end()
