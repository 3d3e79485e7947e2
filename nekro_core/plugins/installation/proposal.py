"""What is known about a plugin before it is installed: what it is, what it may do, and what is
wrong with it."""

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
    """A package that a plugin needs. ``named`` is whether the plugin names it itself; if not,
    ``reason`` says why it is added. ``there`` is whether the bot has it already."""

    requirement: str
    named: bool
    there: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginProposal:
    """What installing or updating a plugin would bring. Nothing has been changed yet.

    Attributes:
        item: The name that it would have: ``local/NAME``.
        source: The source as text for people, without a password.
        commit: Git's id of the commit; empty for other sources.
        digest: The SHA-256 of all its files. `Installer.install` takes it, and refuses other files
            than those that were shown.
        looked: What its code says about it: key, version, tools, commands, and what the code may
            do, each with a place in the code.
        packages: The packages that it needs.
        notes: Lines about packages that stay in another version than it asks for.
        problems: What would be wrong with it. With an error, it would not be loaded.
        files: The number of its files.
        installed: The version that is installed now; empty for a new plugin.
        changes: For an update, one line for each file that is different.
        new_abilities: For an update, what the installed version cannot do.
        lost: For an update, the files that were changed here and that it would overwrite.
        check: The outcome of loading it in a confined process; None if that was not tried.
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
    """One digest for all files of a plugin, from their digests by path."""
    return hashlib.sha256(msgspec.json.encode(sorted(files.items()))).hexdigest()


def needed_packages(needs: PluginNeeds, there: Mapping[str, bool]) -> tuple[NeededPackage, ...]:
    """List the packages that a plugin needs. ``there`` says by requirement which of them the bot
    has."""
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
