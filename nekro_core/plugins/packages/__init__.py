"""Python packages that plugins need: one folder for all, resolved together, never the bot's own.

What a bot imports at its start is here; `needs` and what asks pip are imported when they are used.
"""

from nekro_core.plugins.packages.errors import InvalidRequirements, PackagesRefused
from nekro_core.plugins.packages.package_folder import PackageFolder, StalePackage

__all__ = ["InvalidRequirements", "PackageFolder", "PackagesRefused", "StalePackage"]
