"""Downloads a file from an address that the operator gave, up to a maximum size."""

import time
from pathlib import Path

import httpx

from nekro_core.system.errors import NekroError
from nekro_core.system.thread_cancellation import stop_if_cancelled

_SILENT_S = 20.0
"""Maximum wait for the server's next bytes, in seconds."""
_WHOLE_S = 300.0
"""Maximum time of a download, in seconds. A clone by git has the same limit."""


class DownloadFailed(NekroError):
    """A file cannot be downloaded from its address. The text says why."""


def download(address: str, target: Path, *, most_bytes: int) -> None:
    """Download a file, and write it to ``target``. Redirects are followed. Blocks. Raises
    `DownloadFailed` if the server refuses, is silent for 20 s, takes longer than 300 s, or sends
    more than ``most_bytes``."""
    until, size = time.monotonic() + _WHOLE_S, 0
    try:
        with (
            httpx.Client(follow_redirects=True, timeout=_SILENT_S) as client,
            client.stream("GET", address) as answer,
            target.open("wb") as file,
        ):
            if answer.status_code != httpx.codes.OK:
                raise DownloadFailed(f"{address}: the server answers {answer.status_code}")
            for piece in answer.iter_bytes():
                stop_if_cancelled()
                size += len(piece)
                if size > most_bytes:
                    raise DownloadFailed(f"{address}: it is over {most_bytes} bytes")
                if time.monotonic() > until:
                    raise DownloadFailed(f"{address}: it took over {_WHOLE_S:g} s")
                file.write(piece)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise DownloadFailed(f"{address}: {type(error).__name__}: {error}") from None
