"""What the parts of the plugin object are built on, each in the folder of its matter."""

from abc import ABC, abstractmethod


class SupportsDeclare(ABC):
    """Can say that it has something."""

    @abstractmethod
    def declare(self, value: object) -> None:
        """See `NekroPlugin.declare`."""
