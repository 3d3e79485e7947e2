"""Errors about the packages of plugins."""

from nekro_core.system.errors import NekroError


class InvalidRequirements(NekroError, ValueError):
    """A plugin's list of packages is not valid. The message names the file and line, and says what
    was expected."""


class PackagesRefused(NekroError):
    """Packages were not installed, and nothing was changed. The message names the plugin, the
    package that it needs, and the conflict."""
