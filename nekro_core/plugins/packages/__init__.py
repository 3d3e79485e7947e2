"""Installs the Python packages that plugins need: resolved together, in one folder for all plugins.
The bot's own packages never change.

This module imports only what a bot needs at its start. `requirements`, `pip` and `install` are
imported when they are used.
"""

from nekro_core.plugins.packages.errors import InvalidRequirements, PackagesRefused
from nekro_core.plugins.packages.package_folder import PackageFolder, StalePackage

__all__ = ["InvalidRequirements", "PackageFolder", "PackagesRefused", "StalePackage"]
