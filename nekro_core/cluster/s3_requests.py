"""Sends requests to an S3 server. They are signed, their time and the size of the answers are
limited, and they are repeated after a fault that passes."""

import hashlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from io import BufferedReader, BufferedWriter
from typing import Self, TypeVar
from urllib.parse import quote

import anyio
import httpx
from anyio import to_thread

from nekro_core.cluster.errors import ClusterUnavailable
from nekro_core.cluster.objects import too_large
from nekro_core.cluster.s3_address import S3Address
from nekro_core.cluster.s3_answers import S3Refused, refusal, untrusted
from nekro_core.cluster.s3_signing import S3Signer
from nekro_core.cluster.settings import S3Settings
from nekro_core.llm.endpoint import trusted_certificates
from nekro_core.system.proxies import environment_proxy

SILENT_S = 20.0
"""Seconds without a byte after which a request fails. Servers answer within a second; a list of a
large bucket may take some."""
_CONNECT_S = 5.0
"""Maximum number of seconds for connecting."""
_BYTES_S = 1024 * 1024
"""The lowest speed, in bytes per second, at which an object may be transferred."""
_LEAST_S = 30.0
"""Seconds that are added to the time limit of each transfer."""
_PAUSES_S = (0.2, 1.0)
"""Pauses in seconds before a request is sent again. Three attempts are enough for a server that is
busy for a moment. If it is away for longer, callers try again later by themselves."""
_CONNECTIONS = httpx.Limits(max_connections=32, max_keepalive_connections=8)
"""Maximum number of connections of one process. A transfer of a large object uses one for long."""
_PIECE_BYTES = 256 * 1024
"""Number of bytes of a file that are read or written at once. No more of the file is in memory."""
_ANSWER_BYTES = 8 * 1024**2
"""Maximum size in bytes of an answer that is not an object. A page of a list has at most 1000 keys
of 1 KiB, with some hundred bytes around each."""
_ERROR_BYTES = 64 * 1024
"""About how many bytes of a refusal are read at most. An error of S3 has less than one KiB."""
_REFUSAL_S = 2.0
"""Maximum number of seconds for reading the body of a refusal whose end the server does not
announce. The status alone says that the request failed, so it must not take until the server closes
the connection."""
_WITHOUT_BODY = (204, 304)
"""Statuses of answers that have no body, and need no header that says so."""
_EMPTY = hashlib.sha256().hexdigest()
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class S3Answer:
    """An answer that says that the request was carried out."""

    headers: httpx.Headers
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class ObjectDownload:
    """An object that was written into a file: its size in bytes, its digest in hex, and the headers
    of the answer."""

    size: int
    sha256: str
    headers: httpx.Headers


@dataclass(frozen=True, slots=True)
class ObjectUpload:
    """A file that becomes an object.

    Attributes:
        file: The file, open for reading.
        size: Its size in bytes.
        sha256: Its digest in hex.
    """

    file: BufferedReader
    size: int
    sha256: str

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the content from its beginning."""
        await to_thread.run_sync(self.file.seek, 0)
        while piece := await to_thread.run_sync(self.file.read, _PIECE_BYTES):
            yield piece


def transfer_s(size: int, least_s: float = _LEAST_S) -> float:
    """Return the time limit in seconds for a request with this number of bytes."""
    return least_s + size / _BYTES_S


class S3Requests:
    """Sends requests about one bucket. Use `S3Requests.open`. A request that fails raises
    `ClusterUnavailable`, or `S3Refused` if the server refused it."""

    def __init__(self, address: S3Address, signer: S3Signer, client: httpx.AsyncClient) -> None:
        self._address = address
        self._signer = signer
        self._client = client

    @classmethod
    @asynccontextmanager
    async def open(
        cls, address: S3Address, settings: S3Settings, *, silent_s: float = SILENT_S
    ) -> AsyncIterator[Self]:
        """Keep connections to the server until the block ends. No request is sent yet. A request
        fails after ``silent_s`` seconds without a byte. Raises `ClusterMisconfigured`."""
        signer = await S3Signer.open(settings, address.region)
        async with httpx.AsyncClient(
            timeout=httpx.Timeout(silent_s, connect=_CONNECT_S),
            limits=_CONNECTIONS,
            verify=trusted_certificates(),
            proxy=environment_proxy(address.endpoint),
            trust_env=False,
        ) as client:
            yield cls(address, signer, client)

    async def call(
        self,
        method: str,
        key: str = "",
        query: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        upload: ObjectUpload | None = None,
    ) -> S3Answer:
        """Send a request whose answer is short. The body of an answer is needed for GET alone. For
        other methods it is not read if the answer does not say where it ends.

        Args:
            method: The method, such as ``PUT``.
            key: The object's key; empty for the bucket.
            query: The parameters. A parameter without a value has an empty one.
            headers: Further headers of the request. They are signed.
            upload: The body. Without it, the body is empty.
        """

        async def read(response: httpx.Response) -> S3Answer:
            if method != "GET" and not _has_end(response):
                return S3Answer(response.headers)
            body = await _read(response, _ANSWER_BYTES)
            if len(body) > _ANSWER_BYTES:
                raise ClusterUnavailable(
                    f"{self._address.endpoint} answers with more than {_ANSWER_BYTES} bytes"
                )
            return S3Answer(response.headers, body)

        return await self._send(method, key, query or {}, headers or {}, upload, read)

    async def download(
        self, key: str, target: BufferedWriter, most_bytes: int, *, least_s: float = _LEAST_S
    ) -> ObjectDownload:
        """Write the content of an object into a file, which is open for writing. Its time limit is
        ``least_s``, and a second more for each MiB that comes. Raises `OSError`, `TimeoutError` and
        `ObjectTooLarge` too."""

        async def write(response: httpx.Response) -> ObjectDownload:
            # An earlier attempt may have written a part.
            await to_thread.run_sync(_empty, target)
            digest, size, began = hashlib.sha256(), 0, anyio.current_time()
            promised = int(response.headers.get("content-length", "0"))
            with anyio.fail_after(transfer_s(min(promised, most_bytes), least_s)) as limit:
                async for piece in response.aiter_raw(_PIECE_BYTES):
                    if (size := size + len(piece)) > most_bytes:
                        raise too_large(key, most_bytes)
                    # The size is not known before the end if the answer comes in chunks.
                    limit.deadline = max(limit.deadline, began + transfer_s(size, least_s))
                    await to_thread.run_sync(_write, target, digest.update, piece)
            return ObjectDownload(size, digest.hexdigest(), response.headers)

        return await self._send("GET", key, {}, {}, None, write)

    async def _send(
        self,
        method: str,
        key: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        upload: ObjectUpload | None,
        take: Callable[[httpx.Response], Awaitable[_T]],
    ) -> _T:
        """Send a request up to three times, and return what ``take`` makes of the answer."""
        url = self._address.url(key)
        if query:
            # Sorted and escaped as in the signature.
            pairs = (f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in query.items())
            url = f"{url}?{'&'.join(sorted(pairs))}"
        once = partial(self._send_once, method, url, headers, upload, take)
        for pause in _PAUSES_S:
            try:
                return await once()
            except httpx.TransportError:
                pass
            except S3Refused as error:
                if not error.passing:
                    raise
            await anyio.sleep(pause)
        try:
            return await once()
        except httpx.TransportError as error:
            raise ClusterUnavailable(
                f"the S3 server {self._address.endpoint} does not answer "
                f"({str(error) or type(error).__name__}): check that it runs, and "
                "NEKRO_S3__ENDPOINT"
            ) from error

    async def _send_once(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        upload: ObjectUpload | None,
        take: Callable[[httpx.Response], Awaitable[_T]],
    ) -> _T:
        digest = upload.sha256 if upload is not None else _EMPTY
        signed = await self._signer.sign(method, url, headers, digest)
        # Compressed content would not have the digest of the object.
        signed["Accept-Encoding"] = "identity"
        if upload is not None:
            signed["Content-Length"] = str(upload.size)
        body = upload.pieces() if upload is not None else None
        request = self._client.build_request(method, url, headers=signed, content=body)
        try:
            response = await self._client.send(request, stream=True)
        except httpx.ConnectError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise untrusted(self._address.endpoint, error) from error
            raise
        try:
            if response.is_success:
                return await take(response)
            said = await _read(
                response, _ERROR_BYTES, within_s=math.inf if _has_end(response) else _REFUSAL_S
            )
            region = response.headers.get("x-amz-bucket-region", "")
            raise refusal(self._address.endpoint, response.status_code, said, region=region)
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()


def _has_end(response: httpx.Response) -> bool:
    """Return whether an answer says where it ends. Otherwise it ends when the server closes the
    connection, which some servers and proxies do late."""
    headers = response.headers
    return (
        "content-length" in headers
        or "transfer-encoding" in headers
        or response.status_code in _WITHOUT_BODY
    )


async def _read(response: httpx.Response, most_bytes: int, *, within_s: float = math.inf) -> bytes:
    """Read the body of an answer. Reading stops when more than ``most_bytes`` bytes have come, or
    after ``within_s`` seconds."""
    body = bytearray()
    with anyio.move_on_after(within_s):
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > most_bytes:
                break
    return bytes(body)


def _empty(file: BufferedWriter) -> None:
    file.seek(0)
    file.truncate()


def _write(file: BufferedWriter, digest: Callable[[bytes], None], piece: bytes) -> None:
    file.write(piece)
    digest(piece)
