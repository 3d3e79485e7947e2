"""Names the volumes with the packages of boxes, and removes those of earlier lists of packages.

The name of a volume ends with a digest of the list. So an update of the bot that changes the list
leads to a new volume, and the old one, of 350 MB, would stay.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from nekro_core.sandbox.box import BackendUnavailable
from nekro_core.sandbox.docker.engine import DockerEngine

_log = logging.getLogger(__name__)

_PREFIX = "nekro-box-packages-"
_VOLUME = re.compile(rf"{_PREFIX}(?P<python>cp\d+-\w+)-(?P<digest>[0-9a-f]{{12}})")


def volume_name(tag: str) -> str:
    """Return the name of the volume for packages with this tag (`packages_tag`)."""
    return f"{_PREFIX}{tag}"


async def remove_old_volumes(engine: DockerEngine, digest: str) -> int:
    """Remove the volumes of earlier lists of packages, unless a container uses them. Return their
    number. ``digest`` is that of the present list (`packages_digest`). If the engine or the proxy
    before it refuses this, the volumes stay."""
    ask, client = engine.ask, engine.client
    try:
        all_of_ours = await ask(client.volumes, filters={"name": _PREFIX})
        unused = await ask(client.volumes, filters={"name": _PREFIX, "dangling": True})
    except BackendUnavailable as error:
        _log.debug("old volumes are not looked for: %s", error)
        return 0
    names = {each["Name"] for each in unused.get("Volumes") or ()}
    removed = 0
    for old in _replaced(all_of_ours.get("Volumes") or (), digest):
        if old not in names:
            continue
        try:
            await ask(client.remove_volume, old)
        except BackendUnavailable as error:  # A container of another bot has begun to use it.
            _log.debug("the volume %s stays: %s", old, error)
        else:
            _log.info("removed the volume %s, which has an earlier list of packages", old)
            removed += 1
    return removed


def _replaced(described: Iterable[Mapping[str, Any]], digest: str) -> list[str]:
    """Return the names of the volumes that a volume of the present list, for the same Python, has
    replaced."""
    found = [
        (name, datetime.fromisoformat(each["CreatedAt"]))
        for each in described
        if (name := _VOLUME.fullmatch(each["Name"])) is not None and each.get("CreatedAt")
    ]
    present = {name["python"]: made for name, made in found if name["digest"] == digest}
    return [
        name.string
        for name, made in found
        # A volume that was made later can belong to a newer bot that uses the same engine.
        if name["digest"] != digest
        and name["python"] in present
        and made <= present[name["python"]]
    ]
