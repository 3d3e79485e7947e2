"""Says which version of the bot runs, and under which licences its packages are."""

import platform
from dataclasses import dataclass
from email.message import Message
from functools import cache
from importlib.metadata import PackageNotFoundError, distributions, version
from typing import cast

import anyio.to_thread

from nekro_core.operator.actions import Area, query
from nekro_core.operator.audit import AuditLog
from nekro_core.operator.roles import AccessRole, Actor

_MAX_LICENCE = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageLicence:
    """An installed Python package.

    Attributes:
        name: The package's name.
        version: Its version.
        licence: The licence named in its metadata; empty if none is named.
    """

    name: str
    version: str
    licence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AboutBot:
    """The running version.

    Attributes:
        version: The version of nekro-core.
        python: The version of Python.
        system: The operating system and the processor.
        started: When the bot started, in seconds since 1970.
        changes: The text of CHANGELOG.md; empty if it is not installed.
        packages: All installed packages, by their names.
    """

    version: str
    python: str
    system: str
    started: float
    changes: str
    packages: tuple[PackageLicence, ...]


class About(Area):
    """The running version.

    Args:
        audit: The audit log.
        started: When the bot started, in seconds since 1970.
        changes: The text of CHANGELOG.md.
    """

    name = "about"

    def __init__(self, audit: AuditLog, *, started: float, changes: str) -> None:
        super().__init__(audit)
        self._started = started
        self._changes = changes

    @query(role=AccessRole.VIEWER)
    async def bot(self, actor: Actor) -> AboutBot:  # noqa: ARG002
        """Get the versions of the bot and of its packages, with their licences."""
        return AboutBot(
            version=own_version(),
            python=platform.python_version(),
            system=f"{platform.system()} {platform.machine()}",
            started=self._started,
            changes=self._changes,
            packages=await anyio.to_thread.run_sync(_packages),
        )


def own_version() -> str:
    """Return the version of nekro-core; ``unknown`` if it is not installed."""
    try:
        return version("nekro-core")
    except PackageNotFoundError:
        return "unknown"


@cache
def _packages() -> tuple[PackageLicence, ...]:
    """Read the metadata of all packages. This takes a second for 200 packages."""
    known: dict[str, PackageLicence] = {}
    for each in distributions():
        about = cast("Message", each.metadata)  # The declared type of ``metadata`` lacks ``get``.
        name = about["Name"] or ""
        licence = about.get("License-Expression") or _of_classifiers(about.get_all("Classifier"))
        licence = licence or (about.get("License") or "").strip().partition("\n")[0]
        if name:
            known.setdefault(
                name.lower(),
                PackageLicence(name=name, version=each.version, licence=licence[:_MAX_LICENCE]),
            )
    return tuple(known[name] for name in sorted(known))


def _of_classifiers(classifiers: list[str] | None) -> str:
    named = [
        each.rpartition(" :: ")[2] for each in classifiers or () if each.startswith("License ::")
    ]
    return ", ".join(each for each in named if each != "OSI Approved")
