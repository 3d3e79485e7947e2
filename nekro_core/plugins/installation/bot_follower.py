"""The interface through which an installation talks with the bot whose plugins it changes."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from nekro_core.system.errors import NekroError
from nekro_core.tools.problem import PluginProblem

Preflight = Callable[[Path, Path], Sequence[PluginProblem]]
"""A function that gets a plugin and the folder of the installed plugins, and finds problems in the
plugin's files without loading it. If one of the problems is an error, the plugin could not be
loaded."""


def no_preflight(plugin: Path, plugins: Path) -> Sequence[PluginProblem]:
    """Return no problems. This is the `Preflight` of a bot that does not run plugins of other
    bots."""
    del plugin, plugins
    return ()


class InstallStage(StrEnum):
    """A stage of an installation. Up to `CHECK`, no plugin has changed, and the installation can be
    cancelled. The packages that it has installed are then removed again."""

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
        """Unload a plugin, so that its files can be replaced. It is loaded again only by
        `resume`."""

    def resume(self, item: str) -> str:
        """Load a plugin from its files if it is switched on. Returns the reason if this failed,
        otherwise an empty text."""


class InstallRefused(NekroError):
    """The change was refused, and no plugin was changed. The text says why, and what to do."""
