"""Chooses the backend that makes boxes. Each backend must pass its self-check first."""

import time
from collections.abc import Callable
from importlib import import_module

import anyio.abc
import anyio.to_thread

from nekro_core.sandbox.box import Backend, BackendUnavailable, SelfCheck
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.settings import BackendName, SandboxSettings

Clock = Callable[[], float]


def make_backends(
    settings: SandboxSettings,
    tasks: anyio.abc.TaskGroup,
    clock: Clock = time.monotonic,
    owner: str = "",
) -> tuple[Backend, ...]:
    """Make the backends that the settings allow, best first and not checked. Close each of them.

    ``owner`` is the identity of the data folder that the caller holds, or empty. The docker backend
    removes containers that an earlier holder of this folder left on the engine. Raises
    `BackendUnavailable` if a backend cannot be made with these settings.
    """
    return tuple(
        _make(name, settings, tasks, clock, owner) for name in backend_names(settings.backend)
    )


def backend_names(wanted: BackendName) -> tuple[BackendName, ...]:
    """The backends that a setting means, best first."""
    if wanted is BackendName.AUTO:
        return (BackendName.JAIL, BackendName.DOCKER)
    return (wanted,)


async def open_backend(
    settings: SandboxSettings,
    tasks: anyio.abc.TaskGroup,
    clock: Clock = time.monotonic,
    owner: str = "",
) -> Backend:
    """Open the first backend that passes its own self-check. Its tasks run in ``tasks``.

    The caller closes it before ``tasks`` ends. ``owner`` is as in `make_backends`. Raises
    `BackendUnavailable` with every failed check and its remedy.
    """
    failures: list[str] = []
    for name in backend_names(settings.backend):
        if name is BackendName.DOCKER:
            # Importing its package takes a quarter of a second, so a thread does it.
            await anyio.to_thread.run_sync(import_module, "nekro_core.sandbox.docker.backend")
        try:
            backend = _make(name, settings, tasks, clock, owner)
        except BackendUnavailable as error:
            failures.append(f"{name.value}: {error}")
            continue
        try:
            checked = await backend.self_check()
        except BaseException:
            await backend.aclose()
            raise
        if checked.ok:
            return backend
        await backend.aclose()
        failures.append(describe_failure(checked))
    raise BackendUnavailable("\n".join(failures))


def _make(
    name: BackendName,
    settings: SandboxSettings,
    tasks: anyio.abc.TaskGroup,
    clock: Clock,
    owner: str,
) -> Backend:
    if name is BackendName.JAIL:
        return JailBackend(settings, tasks, clock)
    # A start without the docker backend does not import its package.
    from nekro_core.sandbox.docker.backend import DockerBackend  # noqa: PLC0415

    return DockerBackend(settings, tasks, clock, owner)


def describe_failure(checked: SelfCheck) -> str:
    """Describe a failed self-check: what failed, what was seen, what to do."""
    lines = [f"{checked.backend}:"]
    for check in checked.checks:
        if not check.ok:
            lines.append(f"  {check.name}: failed ({check.seen})")
            if check.remedy:
                lines.append(f"    {check.remedy}")
    return "\n".join(lines)
