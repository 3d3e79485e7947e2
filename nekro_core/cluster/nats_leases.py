"""Implements leases on NATS.

The name of each lease is a subject of a stream. The stream keeps one message per subject for some
seconds: the name of the process that holds the lease. A process writes only if the subject is
empty, or has its own last message. (A key-value bucket of NATS is such a stream too.)

Only gateways may write to these subjects, but a worker may choose the subject to which NATS sends
an answer. So a thief of a worker's password can have NATS write something there. Therefore each
message is signed with a secret that workers do not know. A message without a right signature is
written over.
"""

import base64
import hashlib
import hmac
import json
import math
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import nats.errors
from loguru import logger

from nekro_core.cluster.errors import ClusterError, ClusterUnavailable, LeaseLost, LeaseTaken
from nekro_core.cluster.nats_connection import JetStreamRefused, NatsConnection
from nekro_core.cluster.nats_stream import make_expiring_stream
from nekro_core.cluster.subjects import LEASE_STREAM, LEASE_SUBJECT, subject_of
from nekro_core.system.background_tasks import background_tasks

_LASTS_S = 5.0
"""A lease is free again this many seconds after the process that held it was killed."""
_WRONG_SEQUENCE = 10071
"""The error code with which JetStream refuses a write because the last message of the subject is
not the expected one: another process wrote meanwhile."""
_RELEASE_S = 2.0
"""Time limit in seconds for giving a lease up. A lease that was not given up runs out by itself."""
_TRIES = 5
"""Maximum number of tries to renew a lease while somebody who is no gateway writes over it."""


class NatsLeases:
    """Implements `Leases` on NATS.

    Args:
        connection: The connection of a gateway.
        secret: A text that all gateways know and workers do not. Leases are signed with it. If it
            is empty, anybody can sign.
        lasts_s: A lease is free again this many seconds after its last renewal.
    """

    def __init__(
        self, connection: NatsConnection, *, secret: str = "", lasts_s: float = _LASTS_S
    ) -> None:
        self._connection = connection
        self._secret = secret
        self._lasts_s = lasts_s
        self._held: dict[str, _NatsLease] = {}

    async def prepare(self) -> None:
        """Make the stream if it is missing. Raises `ClusterError`."""
        await make_expiring_stream(self._connection, LEASE_STREAM, LEASE_SUBJECT, self._lasts_s)

    @asynccontextmanager
    async def hold(self, name: str, holder: str) -> AsyncIterator[None]:
        """See `Leases.hold`."""
        if other := self._held.get(name):
            raise LeaseTaken(f"{name} is used by {other.holder}")
        lease = self._held[name] = _NatsLease(
            self._connection, name, holder, _Signature(self._secret), self._lasts_s
        )
        try:
            async with self._hold(lease, name):
                yield
        finally:
            del self._held[name]

    def is_current(self, name: str) -> bool:
        """See `Leases.is_current`."""
        lease = self._held.get(name)
        return lease is not None and anyio.current_time() < lease.renewed_at + self._lasts_s

    @asynccontextmanager
    async def _hold(self, lease: "_NatsLease", name: str) -> AsyncIterator[None]:
        await lease.begin()
        lost = False

        async def renew(scope: anyio.CancelScope) -> None:
            nonlocal lost
            while True:
                await anyio.sleep(self._lasts_s / 3)
                try:
                    await lease.renew()
                except LeaseTaken as taken:
                    logger.error("{}", taken)
                    lost = True
                    scope.cancel()
                except ClusterError as error:
                    # Nobody can take the lease while NATS cannot be reached. If another process has
                    # taken it, the next renewal that reaches NATS raises `LeaseTaken`.
                    logger.warning("{} cannot be renewed now: {}", name, error)

        try:
            async with background_tasks() as tasks:
                tasks.start_soon(renew, tasks.cancel_scope)
                yield
        finally:
            if not lost:
                with anyio.move_on_after(_RELEASE_S, shield=True):
                    await lease.release()
        if lost:
            raise LeaseLost(f"{name} is used by another process now")


class _Signature:
    """Signs the messages of leases."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def signed(self, subject: str, holder: str) -> str:
        """Return a signed message that says who holds a lease. No two calls return the same, so a
        process can tell its own message from that of an earlier process of the same name."""
        text = f"{holder}\n{uuid.uuid4().hex}"
        return f"{text}\n{self._of(subject, text)}"

    def holder(self, subject: str, content: str) -> str | None:
        """Return who holds a lease; None if the message has no right signature."""
        text, _, signature = content.rpartition("\n")
        if not hmac.compare_digest(signature.encode(), self._of(subject, text).encode()):
            return None
        return text.partition("\n")[0]

    def _of(self, subject: str, text: str) -> str:
        return hmac.new(self._secret, f"{subject}\n{text}".encode(), hashlib.sha256).hexdigest()


class _NatsLease:
    """One name that this process uses."""

    def __init__(
        self,
        connection: NatsConnection,
        name: str,
        holder: str,
        signature: _Signature,
        lasts_s: float,
    ) -> None:
        self.holder = holder
        self.renewed_at = -math.inf
        """When the last message that NATS has stored was sent, on anyio's clock."""
        self._connection = connection
        self._name = name
        self._subject = f"{LEASE_SUBJECT}.{subject_of(name)}"
        self._sequence = 0
        self._signature = signature
        self._lasts_s = lasts_s
        self._content = signature.signed(self._subject, holder)

    async def begin(self) -> None:
        """Write the holder's name if nobody holds the lease, or if a process of the same name has
        left it. Such a process has ended, because the database admits one process of each name.
        Without this, a process that was killed and started again would wait until its own lease has
        run out. Raises `LeaseTaken` and `ClusterUnavailable`."""
        if await self._write(0):
            return
        content, last = await self._present()
        if content and self._signature.holder(self._subject, content) is None:
            # If a gateway holds the lease, it writes over this message at its next renewal. Wait
            # for that.
            logger.warning("{}: somebody who is no gateway has written over it", self._name)
            await anyio.sleep(self._lasts_s / 2)
            content, last = await self._present()
        holder = self._signature.holder(self._subject, content)
        if holder not in (None, self.holder) or not await self._write(last):
            raise LeaseTaken(f"{self._name} is used by {holder or 'another process'}")

    async def renew(self) -> None:
        """Write the holder again. If the lease ran out meanwhile and nobody took it, take it again.
        Raises `LeaseTaken` and `ClusterUnavailable`."""
        if await self._write(self._sequence):
            return
        for _ in range(_TRIES):
            content, last = await self._present()
            # NATS may have stored our last renewal although its confirmation did not arrive.
            if content not in ("", self._content):
                if (holder := self._signature.holder(self._subject, content)) is not None:
                    raise LeaseTaken(f"{self._name} is used by {holder}")
                logger.warning("{}: somebody who is no gateway has written over it", self._name)
            if await self._write(last):
                return
        raise ClusterUnavailable(f"{self._name} is written over again and again")

    async def release(self) -> None:
        """Delete our own message."""
        try:
            await self._connection.api(
                f"STREAM.PURGE.{LEASE_STREAM}",
                {"filter": self._subject, "seq": self._sequence + 1},
            )
        except ClusterError as error:
            logger.debug("{} runs out by itself: {}", self._name, error)

    async def _write(self, last: int) -> bool:
        """Write the holder if the subject's last message has this number; 0 means that it has no
        message. Returns False if another message is there."""
        headers = {"Nats-Expected-Last-Subject-Sequence": str(last)}
        sent_at = anyio.current_time()
        try:
            message = await self._connection.request(
                self._subject, self._content.encode(), headers=headers
            )
        except nats.errors.NoRespondersError:
            raise ClusterUnavailable(f"{self._subject}: JetStream does not answer") from None
        answer = json.loads(message.data)
        if error := answer.get("error"):
            if error.get("err_code") == _WRONG_SEQUENCE:
                return False
            raise JetStreamRefused(self._subject, error)
        self._sequence, self.renewed_at = int(answer["seq"]), sent_at
        return True

    async def _present(self) -> tuple[str, int]:
        """Return the content of the present lease and the number of its message; nothing and 0 if
        it has run out. Raises `ClusterError`."""
        try:
            found = await self._connection.api(
                f"STREAM.MSG.GET.{LEASE_STREAM}", {"last_by_subj": self._subject}
            )
        except JetStreamRefused as refused:
            if not refused.missing:
                raise
            return "", 0
        message = found["message"]
        content = base64.b64decode(message.get("data", "")).decode(errors="replace")
        return content, int(message["seq"])
