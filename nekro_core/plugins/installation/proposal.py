"""The description of a plugin before its installation: what it is, what it may do, and its
problems."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from nekro_core.plugins.installation.check_order import CheckResult
from nekro_core.plugins.installation.inspection import DetectedAbility, PluginInspection
from nekro_core.plugins.installation.packages import PluginNeeds
from nekro_core.plugins.installation.sources import PluginSource
from nekro_core.tools.problem import PluginProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededPackage:
    """A package that a plugin needs. ``named`` says whether the plugin itself names the package; if
    not, ``reason`` says why it is added. ``there`` says whether the bot already has it."""

    requirement: str
    named: bool
    there: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginProposal:
    """The description of a plugin that could be installed or updated. Nothing has been changed yet.

    Attributes:
        item: The item name that the plugin would have: ``local/NAME``.
        source: The source. ``str(source)`` is its text for people, without a password.
        commit: Git's id of the commit; empty for other sources.
        digest: The SHA-256 of all files. If it is passed to `Installer.install`, files that are
            different from these are refused.
        looked: The result of reading the code: key, version, tools, commands, and what the code may
            do, each with a place in the code.
        packages: The packages that the plugin needs.
        notes: Lines about packages that are added although the plugin does not name them, and about
            packages that stay in another version than the plugin asks for.
        problems: The problems that were found. If one of them is an error, the plugin could not be
            loaded.
        files: The number of files.
        installed: The version that is installed at present; empty for a new plugin.
        changes: For an update, one line for each file that is different.
        new_abilities: For an update, the abilities that the installed version does not have.
        lost: For an update, the files that were changed here and that the update would overwrite.
        check: The outcome of loading the plugin in a confined process; None if this was not tried.
    """

    item: str
    source: PluginSource
    commit: str
    digest: str
    looked: PluginInspection
    packages: tuple[NeededPackage, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[PluginProblem, ...] = ()
    files: int = 0
    installed: str = ""
    changes: tuple[str, ...] = ()
    new_abilities: tuple[DetectedAbility, ...] = ()
    lost: tuple[str, ...] = ()
    check: CheckResult | None = None


def digest_of(files: Mapping[str, str]) -> str:
    """Compute one digest for all files of a plugin. ``files`` maps their paths to their digests."""
    return hashlib.sha256(msgspec.json.encode(sorted(files.items()))).hexdigest()


def needed_packages(needs: PluginNeeds, there: Mapping[str, bool]) -> tuple[NeededPackage, ...]:
    """List the packages that a plugin needs. ``there`` says for each requirement whether the bot
    has the package."""
    named = [
        NeededPackage(requirement=text, named=True, there=there[text])
        for text in (str(each.requirement) for each in needs.declared)
    ]
    added = [
        NeededPackage(
            requirement=str(each.need.requirement),
            named=False,
            there=there[str(each.need.requirement)],
            reason=f"{each.where} imports {each.module}",
        )
        for each in needs.undeclared
    ]
    by_pip = [
        NeededPackage(
            requirement=str(each.requirement),
            named=False,
            there=there[str(each.requirement)],
            reason="it runs pip for it",
        )
        for each in needs.by_pip
    ]
    return (*named, *added, *by_pip)
