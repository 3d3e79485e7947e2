"""What an installation needs from the bot whose plugins it changes."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from nekro_core.system.errors import NekroError
from nekro_core.tools.problem import PluginProblem

Preflight = Callable[[Path, Path], Sequence[PluginProblem]]
"""Returns the problems that loading a plugin would report, as far as its files show them. Gets the
plugin and the folder of the installed plugins. An error means that the plugin would not be
loaded."""


def no_preflight(plugin: Path, plugins: Path) -> Sequence[PluginProblem]:
    """Find no problems. This is the `Preflight` of a bot that runs no plugins of other bots."""
    del plugin, plugins
    return ()


class InstallStage(StrEnum):
    """What an installation does now. Up to `CHECK` nothing has changed and it can be cancelled."""

    FETCH = "fetch"
    PACKAGES = "packages"
    CHECK = "check"
    REPLACE = "replace"
    LOAD = "load"


def ignore_stage(stage: InstallStage) -> None:
    """Do nothing at the beginning of a stage."""
    del stage


class BotFollower(Protocol):
    """The bot whose plugins are changed, if it runs in this process. The methods block."""

    def suspend(self, item: str) -> None:
        """End a plugin, so that its files can be replaced. It is not loaded until `resume`."""

    def resume(self, item: str) -> str:
        """Load a plugin from its files if it is switched on. Returns why that failed; empty if it
        did not."""


class InstallRefused(NekroError):
    """The change was refused, and no plugin was changed. The text says why, and what to do."""
