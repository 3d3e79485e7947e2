"""Reads from the settings what a prompt says about the sandbox."""

from collections.abc import Mapping, Sequence

from nekro_core.agent.prompt.chat_place import SandboxFacts
from nekro_core.sandbox.settings import SandboxSettings

_PACKAGES: Mapping[str, Sequence[str]] = {"python": (), "python-data": ("numpy", "PIL")}
"""The packages of the jail's images besides the standard library. The packages of other images are
not known."""


def sandbox_facts(settings: SandboxSettings, fetched: Sequence[str] = ()) -> SandboxFacts:
    """Return what these settings say about the boxes in which chats' code runs. ``fetched`` are the
    packages that boxes of the default image can import besides those of the image
    (`nekro_core.sandbox.box_packages`)."""
    own = _PACKAGES.get(settings.default_image, () if fetched else None)
    return SandboxFacts(
        packages=None if own is None else tuple(dict.fromkeys((*fetched, *own))),
        seconds=settings.run_seconds,
        network=bool(settings.egress or settings.egress_private),
    )
