"""Finds what a prompt says about the sandbox, in the settings."""

from collections.abc import Mapping, Sequence

from nekro_core.agent.prompt.chat_place import SandboxFacts
from nekro_core.sandbox.settings import SandboxSettings

_PACKAGES: Mapping[str, Sequence[str]] = {"python": (), "python-data": ("numpy", "Pillow")}
"""The packages of the jail's images besides the standard library. Of other images nothing is
known."""


def sandbox_facts(settings: SandboxSettings) -> SandboxFacts:
    """Return what these settings say about the boxes in which chats' code runs."""
    return SandboxFacts(
        packages=_PACKAGES.get(settings.default_image),
        seconds=settings.run_seconds,
        network=bool(settings.egress or settings.egress_private),
    )
