"""Downloads the weights of the embedded model as one file from a model hub, such as Hugging Face.

For a large file, the hub answers with a redirect to its storage, and with the headers
``X-Linked-ETag`` (the SHA-256) and ``X-Linked-Size`` (see huggingface_hub, ``file_download.py``).
The storage supports range requests, so an interrupted download continues where it stopped.
"""

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx

from nekro_core.llm.embedded.weights import (
    DownloadProgress,
    Report,
    Weights,
    WeightsSourceError,
    install_download,
    require_space,
)

TIMES = httpx.Timeout(30.0, connect=6.0)
_TRIES = 4
"""After this number of consecutive attempts that receive no new byte, the download fails."""
_PAUSE_S = 1.0
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_MAX_HOPS = 5


async def fetch_from_hub(base_url: str, weights: Weights, path: Path, report: Report) -> None:
    """Download the file of ``weights`` from the hub at ``base_url`` to ``path``. Raises
    `WeightsSourceError`."""
    address = f"{base_url.rstrip('/')}/{weights.hub_repository}/resolve/main/{weights.file}"
    host = urlsplit(base_url).netloc
    try:
        async with httpx.AsyncClient(timeout=TIMES) as client:
            sha256, size = await _ask(client, address)
            # The name contains the hash, so that a partial download of another version is not
            # continued.
            partial = path.with_name(f".{path.name}.{sha256[:16]}.part")
            require_space(path.parent, size - _size(partial))
            await download(
                client, address, partial, DownloadProgress(f"{weights.name}: hub", 0, size), report
            )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise WeightsSourceError(f"{host}: {str(error) or type(error).__name__}") from error
    report(DownloadProgress(f"{weights.name}: checking", size, size))
    await anyio.to_thread.run_sync(install_download, partial, path, sha256)


async def _ask(client: httpx.AsyncClient, address: str) -> tuple[str, int]:
    """Return hash and size of the file. They are in the hub's own answer; the storage to which the
    hub redirects does not send them."""
    for _ in range(_MAX_HOPS):
        answer = await client.head(address)
        digest = answer.headers.get("x-linked-etag", "").strip('"')
        size = answer.headers.get("x-linked-size", "")
        if _SHA256.match(digest) and size.isdecimal():
            return digest, int(size)
        onward = answer.next_request
        if onward is None or onward.url.host != answer.url.host:
            break
        address = str(onward.url)  # the repository was renamed
    raise WeightsSourceError(
        f"{urlsplit(address).netloc} answers {answer.status_code} without the file's hash"
    )


async def download(
    client: httpx.AsyncClient,
    address: str,
    partial: Path,
    progress: DownloadProgress,
    report: Report,
) -> None:
    """Download a file of ``progress.total`` bytes to ``partial``. If ``partial`` already has the
    first bytes, continue after them.

    Args:
        client: The HTTP client.
        address: The address of the file.
        partial: The file to write. It stays if the download breaks off.
        progress: The name and the size of the download.
        report: Is called with the progress.

    Raises:
        WeightsSourceError: The server answers with an error, or sends another range or more bytes
            than expected.
        httpx.TransportError: Nothing new arrived in several attempts.
    """
    fruitless = 0
    while (begun := _size(partial)) < progress.total:
        try:
            await _continue(client, address, partial, progress, report)
        except httpx.TransportError:
            fruitless = 0 if _size(partial) > begun else fruitless + 1
            if fruitless >= _TRIES:
                raise
            await anyio.sleep(_PAUSE_S)


async def _continue(
    client: httpx.AsyncClient,
    address: str,
    partial: Path,
    progress: DownloadProgress,
    report: Report,
) -> None:
    begun, size = _size(partial), progress.total
    headers = {"Range": f"bytes={begun}-", "Accept-Encoding": "identity"}
    async with client.stream("GET", address, headers=headers, follow_redirects=True) as answer:
        if answer.status_code == 206:
            if not answer.headers.get("content-range", "").startswith(f"bytes {begun}-"):
                raise WeightsSourceError("the hub's storage sends another range than requested")
        elif answer.status_code == 200:
            begun = 0  # the server ignores range requests
        else:
            raise WeightsSourceError(f"the hub's storage answers {answer.status_code}")
        async with await anyio.open_file(partial, "ab" if begun else "wb") as file:
            async for chunk in answer.aiter_raw():
                begun += len(chunk)
                if begun > size:
                    break
                await file.write(chunk)
                report(replace(progress, done=begun, total=size))
    if begun > size:
        await anyio.Path(partial).unlink()
        raise WeightsSourceError("the hub's storage sends more bytes than the file's size")
    if begun < size:
        # Some servers and proxies end an answer early in a regular way.
        raise httpx.RemoteProtocolError(f"the answer ended after {begun} of {size} bytes")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
