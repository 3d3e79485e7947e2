"""The implementations on a real NATS server."""

import subprocess
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from nekro_core.cluster.cluster_url import read_cluster_url
from nekro_core.cluster.credentials import ClusterCredentials, ClusterRole
from nekro_core.cluster.errors import (
    ClusterMisconfigured,
    ClusterUnavailable,
    LeaseLost,
    LeaseTaken,
)
from nekro_core.cluster.nats_calls import NatsCalls
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.nats_leases import NatsLeases
from nekro_core.cluster.nats_log import NatsPartitionLog
from nekro_core.cluster.nats_objects import NatsObjects
from tests.peers.nats import NatsServer

from .conformance import (
    CallContract,
    Diary,
    LeaseContract,
    ObjectContract,
    PartitionLogContract,
    until,
    working,
)
from .conftest import CountingBook

pytestmark = pytest.mark.long


class TestNatsLog(PartitionLogContract):
    @pytest.fixture
    async def log(self, connection: NatsConnection) -> NatsPartitionLog:
        return await NatsPartitionLog.open(connection, CountingBook(), partitions=8)


class TestNatsCalls(CallContract):
    @pytest.fixture
    def calls(self, connection: NatsConnection) -> NatsCalls:
        return NatsCalls(connection)


class TestNatsLeases(LeaseContract):
    @pytest.fixture
    async def leases(self, connection: NatsConnection) -> NatsLeases:
        leases = NatsLeases(connection)
        await leases.prepare()
        return leases


class TestNatsObjects(ObjectContract):
    @pytest.fixture
    async def objects(self, connection: NatsConnection) -> NatsObjects:
        return await NatsObjects.open(connection, most_bytes=1024 * 1024)


async def test_the_number_of_partitions_is_fixed(connection: NatsConnection) -> None:
    await NatsPartitionLog.open(connection, CountingBook(), partitions=8)
    await NatsPartitionLog.open(connection, CountingBook(), partitions=8)
    with pytest.raises(ClusterMisconfigured, match="made with 8 partitions, and 16 are set"):
        await NatsPartitionLog.open(connection, CountingBook(), partitions=16)


async def test_a_restarted_server_goes_on_with_the_same_items(
    nats_server: NatsServer, connection: NatsConnection
) -> None:
    log = await NatsPartitionLog.open(connection, CountingBook(), partitions=4)
    diary = Diary()
    async with working(log, "ada", diary):
        await log.publish(2, b"before", item_id="before")
        await until(lambda: b"before" in diary.items(), "the first item is handled")
        with anyio.fail_after(10):
            while not (await log.look())[2].idle:
                await anyio.sleep(0.01)  # until the server knows that the item is handled
        nats_server.stop(at_once=True)
        with pytest.raises(ClusterUnavailable):
            await log.publish(2, b"lost", item_id="lost")
        nats_server.start()
        await until(lambda: connection.client.is_connected, "the connection is back")
        await log.publish(2, b"after", item_id="after")
        await until(lambda: b"after" in diary.items(), "the next item is handled")
    # The NATS client keeps data that it could not send, and sends it when the server is back. So
    # the item "lost" may be stored, although `publish` raised an error.
    assert [each for each in diary.items() if each != b"lost"] == [b"before", b"after"]


async def test_a_lease_that_was_not_renewed_goes_to_who_takes_it_first(
    nats_server: NatsServer, connection: NatsConnection
) -> None:
    """The first holder renews its lease too late, like a process that was suspended for longer than
    a lease lasts."""
    url = read_cluster_url(nats_server.url)
    others = NatsLeases(connection, lasts_s=1.0)
    await others.prepare()
    async with NatsConnection.open(url, name="slow", role="gateway") as slow:

        async def hold_too_long() -> None:
            # This holder renews its lease after 4 s, a third of 12 s. But the stream keeps a lease
            # for 1 s.
            async with NatsLeases(slow, lasts_s=12.0).hold("account.a", "slow"):
                with pytest.raises(LeaseTaken, match="by slow"):
                    async with others.hold("account.a", "quick"):
                        pass
                await anyio.sleep(2.5)
                async with others.hold("account.a", "quick"):
                    await anyio.sleep(10)

        with pytest.raises(LeaseLost, match="used by another process now"):
            await hold_too_long()


async def test_a_server_that_is_away_at_the_start_is_named() -> None:
    url = read_cluster_url("nats://127.0.0.1:9")
    begun = anyio.current_time()
    with pytest.raises(ClusterUnavailable, match=r"no NATS server answered at nats://127.0.0.1:9"):
        async with NatsConnection.open(url, name="a test", role="worker", wait_s=1.0):
            pass
    assert anyio.current_time() - begun < 10


async def test_a_wrong_password_is_refused_at_the_start() -> None:

    def configuration(port: int, folder: Path) -> str:
        users = 'authorization { users = [ { user: "worker", password: "right" } ] }'
        return f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{folder}" }}\n{users}\n'

    with NatsServer(configuration) as server:
        right = server.url.replace("://", "://worker:right@")
        async with NatsConnection.open(read_cluster_url(right), name="a test", role="worker"):
            pass
        wrong = server.url.replace("://", "://worker:wrong@")
        with pytest.raises(ClusterMisconfigured, match="refuses the user") as caught:
            async with NatsConnection.open(
                read_cluster_url(wrong), name="a test", role="worker", wait_s=2.0
            ):
                pass
        assert "wrong" not in str(caught.value)


async def test_a_server_with_tls_needs_a_certificate_that_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    credentials = ClusterCredentials.make()

    def configuration(port: int, folder: Path) -> str:
        files = {"certificate": str(certificate), "key": str(key)}
        return credentials.configuration(port=port, folder=str(folder), host="127.0.0.1", **files)

    with NatsServer(configuration, encrypted=True) as server:
        url = credentials.url(ClusterRole.GATEWAY, f"localhost:{server.port}", tls=True)
        with pytest.raises(ClusterUnavailable, match="SSL_CERT_FILE"):
            async with NatsConnection.open(
                read_cluster_url(url), name="a test", role="gateway", wait_s=2.0
            ):
                pass
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        async with NatsConnection.open(
            read_cluster_url(url), name="a test", role="gateway"
        ) as connection:
            await NatsPartitionLog.open(connection, CountingBook(), partitions=2)


async def test_a_server_that_denies_tls_does_not_get_the_password() -> None:
    heard = bytearray()

    async def listen(stream: SocketStream) -> None:
        async with stream:
            await stream.send(
                b'INFO {"server_id":"x","version":"2.12.0","max_payload":1048576}\r\n'
            )
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    heard.extend(await stream.receive())

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, listen)
        url = read_cluster_url(f"tls://worker:s3cret-words@127.0.0.1:{port}")
        with pytest.raises(ClusterUnavailable):
            async with NatsConnection.open(url, name="a test", role="worker", wait_s=2.0):
                pass
        tasks.cancel_scope.cancel()
    assert heard
    assert b"s3cret-words" not in heard
