"""A new folder for the shelf: everything that all plugins need together, or a refusal."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nekro_core.plugins.packages.conflicts import conflicts_with_bot, explain_failure
from nekro_core.plugins.packages.errors import PackagesRefused
from nekro_core.plugins.packages.pip import (
    PinnedPackage,
    PipFailed,
    bot_versions,
    install_into,
    resolve,
)
from nekro_core.plugins.packages.requirements import PluginRequirement


def install_packages(
    target: Path,
    every: Mapping[str, Sequence[str]],
    held: Mapping[str, str],
    *,
    index: str,
    builds: bool,
    limit_s: float,
) -> list[PinnedPackage]:
    """Put what plugins need into a new folder, unless that is just what is ``held`` already.

    ``every`` are requirements by plugin. Gives the packages that it comes to. Blocks. Raises
    `PackagesRefused`, naming both sides.
    """
    needs = [
        PluginRequirement(Requirement(text), who) for who, texts in every.items() for text in texts
    ]
    own = bot_versions()
    if clash := conflicts_with_bot(needs, own):
        raise PackagesRefused(clash)
    # Neither side stands against the other from here on, as far as they name each other.
    if all(
        canonicalize_name(need.requirement.name) in own and not need.requirement.extras
        for need in needs
    ):
        return []
    try:
        texts = dict.fromkeys(str(need.requirement) for need in needs)
        pinned = resolve(texts, index=index, builds=builds, limit_s=limit_s)
        if {each.name: each.version for each in pinned} != held:
            install_into(pinned, target, index=index, builds=builds, limit_s=limit_s)
    except (PipFailed, TimeoutError) as error:
        raise PackagesRefused(explain_failure(error, needs, builds=builds)) from None
    return pinned
