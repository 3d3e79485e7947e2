"""Choosing what makes boxes on this machine. It fails closed: a backend proves itself first."""

import time
from collections.abc import Callable

import anyio.abc

from nekro_core.sandbox.box import Backend, BackendUnavailable, SelfCheck
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.settings import BackendName, SandboxSettings

_AVAILABLE = {BackendName.JAIL: JailBackend}


def make_backends(
    settings: SandboxSettings,
    tasks: anyio.abc.TaskGroup,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Backend, ...]:
    """Those that the settings allow, best first, not checked. Each must be closed.

    Raises `BackendUnavailable` where the settings name one that there is not.
    """
    if settings.backend is BackendName.AUTO:
        wanted = tuple(_AVAILABLE)
    elif settings.backend in _AVAILABLE:
        wanted = (settings.backend,)
    else:
        raise BackendUnavailable(
            f"this version has no backend {settings.backend.value!r}; "
            f"set NEKRO_SANDBOX__BACKEND to one of: auto, {', '.join(_AVAILABLE)}"
        )
    return tuple(_AVAILABLE[name](settings, tasks, clock) for name in wanted)


async def open_backend(
    settings: SandboxSettings,
    tasks: anyio.abc.TaskGroup,
    clock: Callable[[], float] = time.monotonic,
) -> Backend:
    """The first backend that passes its own self-check. Its tasks live in ``tasks``.

    The caller closes it, before ``tasks`` ends. Raises `BackendUnavailable` with every failed check
    and its remedy.
    """
    failures: list[str] = []
    for backend in make_backends(settings, tasks, clock):
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


def describe_failure(checked: SelfCheck) -> str:
    """A failed self-check in words: what did not hold, what was seen, what to do."""
    lines = [f"{checked.backend}:"]
    for check in checked.checks:
        if not check.ok:
            lines.append(f"  {check.name}: failed ({check.seen})")
            if check.remedy:
                lines.append(f"    {check.remedy}")
    return "\n".join(lines)
