"""Python packages that plugins need: one folder for all, resolved together, never the bot's own."""

from nekro_core.packages.needs import Need, NeedsUnreadable, needs_of, requirement
from nekro_core.packages.refusal import PackagesRefused
from nekro_core.packages.shelf import PackageShelf, Stale

__all__ = [
    "Need",
    "NeedsUnreadable",
    "PackageShelf",
    "PackagesRefused",
    "Stale",
    "needs_of",
    "requirement",
]
