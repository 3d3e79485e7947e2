"""Chooses the backend that makes boxes: the first backend that passes its self-check."""

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
    """Make the backends that the settings allow, the best one first. No self-check runs here. The
    caller closes each backend.

    ``owner`` is the identity of the data folder that the caller has locked, or empty. The docker
    backend removes containers that an earlier process with this identity left on the engine. Raises
    `BackendUnavailable` if a backend cannot be made with these settings.
    """
    return tuple(
        _make(name, settings, tasks, clock, owner) for name in backend_names(settings.backend)
    )


def backend_names(wanted: BackendName) -> tuple[BackendName, ...]:
    """Return the backends that the setting ``backend`` allows, the best one first."""
    if wanted is BackendName.AUTO:
        return (BackendName.JAIL, BackendName.DOCKER)
    return (wanted,)


async def open_backend(
    settings: SandboxSettings,
    tasks: anyio.abc.TaskGroup,
    clock: Clock = time.monotonic,
    owner: str = "",
) -> Backend:
    """Open the first backend that passes its self-check. The backend's tasks run in ``tasks``.

    The caller closes the backend before ``tasks`` ends. `make_backends` describes ``owner``. If no
    backend passes, raises `BackendUnavailable` with every failed check and its remedy.
    """
    failures: list[str] = []
    for name in backend_names(settings.backend):
        if name is BackendName.DOCKER:
            # The import takes a quarter of a second. In a thread it does not block the event loop.
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
    # This import takes time. It is inside the function so that a bot without the docker backend
    # does not need it.
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
