"""Opens the tracer that the settings ask for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec

from nekro_core.app.settings_sources import SettingsError
from nekro_core.system.telemetry.settings import TraceSettings
from nekro_core.system.telemetry.spans import NO_TRACER, Tracer

_NEEDED = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


@asynccontextmanager
async def open_tracing(settings: TraceSettings) -> AsyncIterator[Tracer]:
    """Open the tracer. Raises `SettingsError` if tracing is switched on and its packages are not
    installed."""
    if not settings.enabled:
        yield NO_TRACER
        return
    if not all(map(_is_installed, _NEEDED)):
        raise SettingsError(
            "NEKRO_TRACES__ENABLED is true, but OpenTelemetry is not installed: "
            "pip install 'nekro-core[otel]'"
        )
    # Import OpenTelemetry only if tracing is switched on: importing it takes time at each start.
    from nekro_core.system.telemetry.otel_tracer import open_tracer  # noqa: PLC0415

    async with open_tracer(settings.content) as tracer:
        yield tracer


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
