"""Describes the platforms that an operator can switch on and off while the bot runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from nekro_core.delivery.adapter import Adapter
from nekro_core.system.errors import NekroError


class PlatformState(StrEnum):
    """Whether a platform's adapter runs."""

    RUNNING = "running"
    OFF = "off"
    FAILED = "failed"
    """It is switched on and does not run. `PlatformStatus.problem` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformStatus:
    """A platform.

    Attributes:
        name: The adapter's name.
        title: The platform's name for people.
        state: Whether it runs.
        locked: Why `PlatformSwitch` cannot switch it off: ``always`` or ``NEKRO_PLATFORMS``; empty
            if it can be switched off.
        manages_accounts: Whether its accounts can be managed while the bot runs. For a platform
            that is off, this is what its manifest says.
        restart_needed: Whether switching it takes full effect only after a restart.
        problem: Why it does not run, in words for people.
        extra: The extra of nekro-core that pip must install for it; empty if it needs none.
    """

    name: str
    title: str
    state: PlatformState
    locked: str = ""
    manages_accounts: bool = False
    restart_needed: bool = False
    problem: str = ""
    extra: str = ""


class PlatformNotSwitched(NekroError):
    """A platform cannot be switched on or off. The text says why and what to do."""


class PlatformSwitch(Protocol):
    """Switches platforms on and off."""

    def adapters(self) -> Mapping[str, Adapter]:
        """Return the adapters that run.

        Returns:
            The adapters by name.
        """

    async def listed(self) -> tuple[PlatformStatus, ...]:
        """List all platforms: the platforms that run, and the platforms that can be switched on.

        Returns:
            The platforms, by title.
        """

    async def enable(self, name: str) -> PlatformStatus:
        """Switch a platform on, now and at each start.

        Args:
            name: The adapter's name.

        Returns:
            The platform.

        Raises:
            PlatformNotSwitched: There is no such platform, it is not installed, or it cannot run.
            OSError: The choice cannot be stored.
        """

    async def disable(self, name: str) -> PlatformStatus:
        """Switch a platform off, now and at each start. Its accounts stay stored.

        Args:
            name: The adapter's name.

        Returns:
            The platform.

        Raises:
            PlatformNotSwitched: There is no such platform, or the settings switch it on.
            OSError: The choice cannot be stored.
        """
