"""What is refused of a plugin's packages."""

from nekro_core.system.errors import NekroError


class InvalidRequirements(NekroError, ValueError):
    """A plugin's list of packages cannot be used. Names file, line and what was expected."""


class PackagesRefused(NekroError):
    """Packages were not installed, and nothing has changed. The message names who needs what, and
    who stands against it."""
