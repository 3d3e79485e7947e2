"""Finds and removes the containers of bots that have ended.

Usually a box's container ends when the connection of its bot ends. Two kinds of containers remain:
containers that were made and never started, and containers whose engine or machine crashed too.
Labels of a container say which process made it and in which place: the machine's boot id and the
PID namespace. If the container was made in the same place as this bot runs, the process can be
checked. Otherwise the process cannot be checked, and the label with the owner decides. The owner is
the identity of a data folder. Only one process at a time can lock this folder, so containers of
other processes with the same owner are orphans.
"""

import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import anyio

from nekro_core.sandbox.docker.engine import DockerApiError, DockerEngine

BOX = "nekro.box"
_PLACE, _PROCESS, _OWNER = f"{BOX}.place", f"{BOX}.process", f"{BOX}.owner"
_NOT_FOUND, _CONFLICT = 404, 409
_REMOVAL_S, _REMOVAL_PAUSE_S = 10.0, 0.05


def box_labels(owner: str) -> dict[str, str]:
    """Return the labels of containers that this process makes. ``owner`` may be empty."""
    return {
        BOX: "1",
        _PLACE: _this_place(),
        _PROCESS: f"{os.getpid()}.{_start_of(os.getpid())}",
        _OWNER: owner,
    }


def is_orphan(labels: Mapping[str, str], owner: str) -> bool:
    """Return True if the process that made this container has certainly ended. If that is not
    certain, return False."""
    if labels.get(_PLACE) == _this_place():
        pid, _, start = labels.get(_PROCESS, "").partition(".")
        return pid.isdigit() and _start_of(int(pid)) != start
    return bool(owner) and labels.get(_OWNER) == owner


async def remove_orphans(engine: DockerEngine, owner: str) -> int:
    """Remove all orphans and return their number. Raises `BackendUnavailable`."""
    found: Iterable[dict[str, Any]] = await engine.ask(
        engine.client.containers, all=True, filters={"label": BOX}
    )
    orphans = [each["Id"] for each in found if is_orphan(each.get("Labels") or {}, owner)]
    for container in orphans:
        await remove_container(engine, container)
    return len(orphans)


async def remove_container(engine: DockerEngine, container: str) -> None:
    """Remove a container with its volumes, and wait at most ten seconds for its removal. Raises
    `BackendUnavailable`, but not if the wait was too short."""
    with anyio.move_on_after(_REMOVAL_S):
        while True:
            try:
                await engine.ask(engine.client.remove_container, container, force=True, v=True)
            except DockerApiError as error:
                if error.status == _NOT_FOUND:
                    return
                # A conflict means that the engine is already removing the container.
                if error.status != _CONFLICT:
                    raise
            else:
                return
            await anyio.sleep(_REMOVAL_PAUSE_S)


def _this_place() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    # This system is not Linux. `_start_of` cannot check processes here either.
    except OSError:
        return f"{platform.node()}/{os.getpid()}"


def _start_of(pid: int) -> str:
    """Return the start time of a process, in the kernel's ticks; empty if there is no such
    process."""
    try:
        # The process name may have spaces and brackets. The numbers start after the last ")".
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
