"""Connects to NATS, and sends requests to JetStream's API.

The requests to JetStream are written as JSON by hand, because the classes of the client library
lack fields that we need, such as ``priority_policy``. See
https://docs.nats.io/reference/reference-protocols/nats_api_reference.
"""

import json
import secrets
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio
import nats.errors
from loguru import logger
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.nuid import NUID

from nekro_core.cluster.cluster_url import ClusterUrl
from nekro_core.cluster.errors import ClusterError, ClusterMisconfigured, ClusterUnavailable

_VERSION = (2, 11)
"""The oldest version of nats-server that has the priority policy ``pinned_client``."""
_CONNECT_S = 10.0
"""Maximum number of seconds that `NatsConnection.open` waits for a server."""
_AGAIN_S = 0.5
"""Pause in seconds between two attempts to connect to a server."""
_PING_S = 10
"""Pause in seconds between two pings. When two pings remain unanswered, the client closes the
connection and connects again. Without pings, the client would not notice a server that is
suspended: such a server keeps its connections open."""
_PROBLEMS = 8
"""Maximum number of errors of a connection that are kept to explain why it failed."""
_API_S = 5.0
"""Time limit of one request to JetStream's API, in seconds."""
_CLOSE_S = 5.0
"""Time limit in seconds for sending what still waits and closing the connection. A server that does
not answer must not hold up the end of the process."""
_NAME_BYTES = 11
"""Number of random bytes of the name of an inbox: 22 hexadecimal digits, the length of the names
that the client library makes."""
_TLS_REMEDY = (
    ". With tls://, the server's configuration needs `handshake_first: true`, and this machine "
    "must trust its certificate (SSL_CERT_FILE names the file of another authority)"
)
_NOT_FOUND = 404


class JetStreamRefused(ClusterError):
    """JetStream refused a request. ``code`` is the number in the refusal, with the meaning that it
    has in HTTP."""

    def __init__(self, subject: str, error: Mapping[str, Any]) -> None:
        self.code = int(error.get("code", 0))
        super().__init__(f"{subject}: {error.get('description') or 'no reason given'}")

    @property
    def missing(self) -> bool:
        """Whether the stream, the consumer or the message does not exist."""
        return self.code == _NOT_FOUND


class _RandomNames(NUID):
    """Makes the names of inboxes. The client library counts up from one name to the next. Then a
    worker, which sees the inbox of a call that it gets, could work out the inboxes of the gateway's
    next requests, and have NATS send forged answers there."""

    def next(self) -> bytearray:
        """Return a name that cannot be guessed. It has the length that the library expects."""
        return bytearray(secrets.token_hex(_NAME_BYTES).encode())


class NatsConnection:
    """A connection to the cluster's NATS servers. Use `NatsConnection.open`. If the connection is
    lost, the requests that wait for an answer fail at once with `ClusterUnavailable`, and the
    client connects again."""

    def __init__(self, client: Client, url: ClusterUrl) -> None:
        self.client = client
        self._url = url
        self._waiting: set[anyio.CancelScope] = set()
        """The requests that wait for an answer."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: ClusterUrl, *, name: str, role: str, wait_s: float = _CONNECT_S
    ) -> AsyncIterator[Self]:
        """Connect, and close the connection when the block ends.

        Args:
            url: The addresses of the servers.
            name: The name of this process. The server shows it in its list of connections.
            role: ``gateway`` or ``worker``. Answers arrive on subjects with the role in their name,
                so that a worker can be forbidden to read the answers to a gateway.
            wait_s: Maximum number of seconds to wait for a server.

        Raises:
            ClusterMisconfigured: The server refuses the user, is too old or has no JetStream.
            ClusterUnavailable: No server answered in time.
        """
        client = Client()
        client._nuid = _RandomNames()  # noqa: SLF001 (the library has no setting for it)
        connection = cls(client, url)
        problems: list[str] = []

        async def failed(error: Exception) -> None:
            problem = str(error) or type(error).__name__
            logger.warning("NATS: {}", problem)
            # Keep each text once, and the newest first. A refused user is told before the
            # connection is reset, which is another error.
            problems[:] = [problem, *(each for each in problems if each != problem)][:_PROBLEMS]

        async def lost() -> None:
            connection._give_up_requests()
            if not client.is_closed:
                logger.warning("NATS: the connection to {} was lost", url)

        async def back() -> None:
            logger.info("NATS: connected to {} again", url)

        try:
            try:
                with anyio.fail_after(wait_s):
                    await client.connect(
                        list(url.servers),
                        name=name,
                        error_cb=failed,
                        disconnected_cb=lost,
                        reconnected_cb=back,
                        max_reconnect_attempts=-1,
                        reconnect_time_wait=_AGAIN_S,  # type: ignore[arg-type]  # asyncio.sleep
                        ping_interval=_PING_S,
                        inbox_prefix=f"_INBOX_{role}",
                        tls=ssl.create_default_context() if url.encrypted else None,
                        # Begin with TLS at once. Otherwise a program between us and the server
                        # could answer in plain text that the server has no TLS, and would get the
                        # password.
                        tls_handshake_first=url.encrypted,
                    )
            except (TimeoutError, OSError, nats.errors.Error) as error:
                raise _explained(url, [*problems, str(error)], wait_s) from error
            await connection._check_server()
            yield connection
        finally:
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await client.close()

    async def _check_server(self) -> None:
        version = self.client.connected_server_version
        if (version.major, version.minor) < _VERSION:
            raise ClusterMisconfigured(
                f"the NATS server {self._url} has version {version.major}.{version.minor}; "
                f"nekro-core needs {_VERSION[0]}.{_VERSION[1]} or newer"
            )
        try:
            await self.request("$JS.API.INFO", b"")
        except nats.errors.NoRespondersError:
            raise ClusterMisconfigured(
                f"the NATS server {self._url} has no JetStream: start it with `-js` and a folder "
                "(`-sd`), or with a configuration that `nekro cluster credentials` wrote"
            ) from None

    async def request(
        self,
        subject: str,
        data: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        within_s: float = _API_S,
    ) -> Msg:
        """Send a request and return the answer.

        Raises `nats.errors.NoRespondersError` if nobody listens to the subject, and
        `ClusterUnavailable` if there is no answer in time, or if the connection is lost meanwhile:
        the answer to a request on the lost connection never arrives.
        """
        with anyio.CancelScope() as scope:
            self._waiting.add(scope)
            try:
                return await self.client.request(
                    subject, data, timeout=within_s, headers=dict(headers) if headers else None
                )
            except nats.errors.NoRespondersError:
                raise
            except (nats.errors.Error, OSError) as error:
                raise ClusterUnavailable(f"NATS at {self._url} did not answer: {error}") from error
            finally:
                self._waiting.discard(scope)
        raise ClusterUnavailable(f"the connection to NATS at {self._url} was lost")

    def _give_up_requests(self) -> None:
        """End all requests that wait for an answer, because the connection is lost."""
        for scope in self._waiting:
            scope.cancel()

    async def send(self, subject: str, data: bytes) -> None:
        """Send a message that gets no answer. While the connection is down, the client keeps the
        message and sends it later, or the message is lost. Raises `ClusterUnavailable`."""
        try:
            await self.client.publish(subject, data)
        except (nats.errors.Error, OSError) as error:
            raise ClusterUnavailable(f"NATS at {self._url} takes nothing: {error}") from error

    async def api(
        self, call: str, body: Mapping[str, Any] | None = None, *, within_s: float = _API_S
    ) -> dict[str, Any]:
        """Make a call of JetStream's API and return its answer.

        ``call`` is what follows ``$JS.API.`` in the subject. Raises `JetStreamRefused` and
        `ClusterUnavailable`.
        """
        subject = f"$JS.API.{call}"
        data = json.dumps(body).encode() if body is not None else b""
        try:
            message = await self.request(subject, data, within_s=within_s)
        except nats.errors.NoRespondersError:
            raise ClusterUnavailable(f"{subject}: JetStream does not answer now") from None
        answer: dict[str, Any] = json.loads(message.data)
        if "error" in answer:
            raise JetStreamRefused(subject, answer["error"])
        return answer


def _explained(url: ClusterUrl, problems: list[str], wait_s: float) -> ClusterError:
    """Return the error for a failed attempt to connect, with what the operator should do."""
    refusals = [each for each in problems if "authorization" in each.lower()]
    text = next((each for each in (*refusals, *problems) if each), "no answer")
    if refusals:
        return ClusterMisconfigured(
            f"the NATS server {url} refuses the user of NEKRO_CLUSTER_URL ({text}): check user and "
            "password"
        )
    return ClusterUnavailable(
        f"no NATS server answered at {url} within {wait_s:g} s ({text}): start it, or check "
        f"NEKRO_CLUSTER_URL{_TLS_REMEDY if url.encrypted else ''}"
    )
