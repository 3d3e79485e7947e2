"""Installs the Python packages that plugins need into one folder for all plugins. The versions are
resolved together. The bot's own packages never change.

This module imports only what a bot needs at its start. `requirements`, `pip` and `install` are
imported when they are used.
"""

from nekro_core.plugins.packages.errors import InvalidRequirements, PackagesRefused
from nekro_core.plugins.packages.package_folder import PackageFolder, StalePackage

__all__ = ["InvalidRequirements", "PackageFolder", "PackagesRefused", "StalePackage"]
