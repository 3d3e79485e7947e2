"""Installs the packages of all plugins together into a new folder, or refuses if they conflict."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from nekro_core.plugins.packages.conflicts import conflicts_with_bot, explain_failure
from nekro_core.plugins.packages.errors import PackagesRefused
from nekro_core.plugins.packages.own_environment import bot_meets, bot_versions
from nekro_core.plugins.packages.pip import PinnedPackage, Pip, PipFailed
from nekro_core.plugins.packages.requirements import PluginRequirement


def install_packages(
    target: Path,
    every: Mapping[str, Sequence[str]],
    held: Mapping[str, str],
    *,
    pip: Pip,
    builds: bool,
) -> list[PinnedPackage]:
    """Install the packages that plugins need into the new folder ``target``. ``held`` are the
    installed packages. If exactly these are needed, nothing is installed.

    ``every`` maps each plugin to its requirements. Returns the packages that meet the requirements,
    without the bot's own packages. Blocks. Raises `PackagesRefused`, whose message names both sides
    of a conflict.
    """
    needs = [
        PluginRequirement(Requirement(text), who) for who, texts in every.items() for text in texts
    ]
    if clash := conflicts_with_bot(needs, bot_versions()):
        raise PackagesRefused(clash)
    if all(bot_meets(need.requirement) for need in needs):
        return []
    try:
        texts = dict.fromkeys(str(need.requirement) for need in needs)
        pinned = pip.resolve(texts)
        if {each.name: each.version for each in pinned} != held:
            pip.install_into(pinned, target)
    except (PipFailed, TimeoutError) as error:
        raise PackagesRefused(explain_failure(error, needs, builds=builds)) from None
    return pinned
