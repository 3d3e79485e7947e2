"""Errors about the packages of plugins."""

from nekro_core.system.errors import NekroError


class InvalidRequirements(NekroError, ValueError):
    """A plugin's list of packages cannot be used. The message names the file and line, and says
    what was expected."""


class PackagesRefused(NekroError):
    """Packages were not installed, and nothing has changed. The message names the plugin and what
    it needs, and what that conflicts with."""
