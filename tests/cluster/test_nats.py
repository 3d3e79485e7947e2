"""Tests of the implementations of `PartitionLog`, `CallCarrier`, `Leases` and `ObjectStore` that
use NATS, with a real NATS server."""

import base64
import json
import subprocess
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import anyio
import nats.errors
import pytest
from anyio.abc import SocketAttribute, SocketStream
from nats.aio.msg import Msg
from nats.js.api import Header

from nekro_core.cluster.cluster_url import read_cluster_url
from nekro_core.cluster.credentials import ClusterCredentials, ClusterRole
from nekro_core.cluster.errors import (
    CallFailed,
    CallTimedOut,
    ClusterError,
    ClusterMisconfigured,
    ClusterUnavailable,
    LeaseLost,
    LeaseTaken,
    LogFull,
    ObjectTooLarge,
)
from nekro_core.cluster.nats_calls import NatsCalls
from nekro_core.cluster.nats_connection import NatsConnection, _explained
from nekro_core.cluster.nats_leases import NatsLeases
from nekro_core.cluster.nats_log import NatsPartitionLog
from nekro_core.cluster.nats_objects import NatsObjects
from nekro_core.cluster.nats_partition import GROUP, OwnershipTimes, consumer_of
from nekro_core.cluster.nats_presence import WorkerPresence, make_presence_stream
from nekro_core.cluster.subjects import (
    CALL_SUBJECT,
    LEASE_STREAM,
    LEASE_SUBJECT,
    PARTITION_STREAM,
    subject_of,
)
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


async def test_an_object_whose_deletion_was_interrupted_can_be_deleted(
    connection: NatsConnection, tmp_path: Path
) -> None:
    """A process was killed after it had deleted the content, and before it deleted the name."""
    objects = await NatsObjects.open(connection)
    source = tmp_path / "source"
    source.write_bytes(b"x" * 300_000)
    await objects.put("media/a", source)
    await connection.api("STREAM.PURGE.OBJ_nekro_objects", {"filter": "$O.nekro_objects.C.>"})
    with anyio.fail_after(30):
        assert await objects.delete("media/a") is True
    assert await objects.names() == []
    state = (await connection.api("STREAM.INFO.OBJ_nekro_objects"))["state"]
    assert state["messages"] == 0


@pytest.mark.parametrize(("told", "error"), [(10, ObjectTooLarge), (400_000, ClusterUnavailable)])
async def test_an_object_that_has_another_size_than_its_name_says_is_not_fetched(
    connection: NatsConnection, tmp_path: Path, told: int, error: type[ClusterError]
) -> None:
    """A thief of a worker's password can write both. Reading stops at the size that is told."""
    objects = await NatsObjects.open(connection)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x" * 300_000)
    await objects.put("media/a", source)
    jetstream = connection.client.jetstream()
    last = await jetstream.get_last_msg("OBJ_nekro_objects", "$O.nekro_objects.M.>")
    assert last.data is not None
    forged = json.loads(last.data) | {"size": told}
    assert last.subject is not None
    await jetstream.publish(
        last.subject, json.dumps(forged).encode(), headers={Header.ROLLUP: "sub"}
    )
    with pytest.raises(error):
        await objects.fetch("media/a", target, most_bytes=1_000_000)
    assert [each.name for each in tmp_path.iterdir()] == ["source"]


async def test_an_object_counts_as_stored_although_its_earlier_content_cannot_be_deleted(
    tmp_path: Path,
) -> None:
    """The user of this test may store objects, and may not delete messages."""

    def configuration(port: int, folder: Path) -> str:
        denied = '{ publish: { deny: ["$JS.API.STREAM.MSG.DELETE.>"] } }'
        user = f'{{ user: "worker", password: "right", permissions: {denied} }}'
        return (
            f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{folder}" }}\n'
            f"authorization {{ users = [ {user} ] }}\n"
        )

    source, copy = tmp_path / "source", tmp_path / "copy"
    with NatsServer(configuration) as server:
        url = read_cluster_url(server.url.replace("://", "://worker:right@"))
        async with NatsConnection.open(url, name="a test", role="worker") as limited:
            objects = await NatsObjects.open(limited)
            for content in (b"first", b"second"):
                source.write_bytes(content)
                await objects.put("boxes/a", source)
            await objects.fetch("boxes/a", copy)
    assert copy.read_bytes() == b"second"


async def test_the_content_of_an_object_whose_storing_was_cancelled_is_deleted(
    connection: NatsConnection, tmp_path: Path
) -> None:
    objects = await NatsObjects.open(connection)
    source = tmp_path / "source"
    source.write_bytes(b"first")
    await objects.put("media/a", source)
    source.write_bytes(b"x" * 50_000_000)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(objects.put, "media/a", source)
        with anyio.fail_after(30):
            while await messages_of_objects(connection) < 4:
                await anyio.sleep(0)
        tasks.cancel_scope.cancel()
    assert await messages_of_objects(connection) == 2, "the content and the name of the first"
    await objects.fetch("media/a", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"first"


async def test_deleting_an_object_that_was_not_stored_to_its_end_deletes_what_was_stored(
    nats_server: NatsServer, connection: NatsConnection, tmp_path: Path
) -> None:
    objects = await NatsObjects.open(connection)
    source = tmp_path / "source"
    source.write_bytes(b"x" * 50_000_000)

    async def put() -> None:
        with pytest.raises(ClusterUnavailable, match="was not stored"):
            await objects.put("media/a", source)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(put)
        with anyio.fail_after(30):
            while await messages_of_objects(connection) < 2:
                await anyio.sleep(0)
        nats_server.pause()
    nats_server.resume()
    assert await messages_of_objects(connection) > 0
    assert await objects.delete("media/a") is False
    assert await messages_of_objects(connection) == 0


async def test_a_worker_reports_often_enough_for_a_stream_of_an_older_version_that_forgets_sooner(
    connection: NatsConnection,
) -> None:
    await make_presence_stream(connection, 1.5)
    ada, bob = (WorkerPresence(connection, name, 60.0) for name in ("ada", "bob"))
    await ada.count()
    for _ in range(25):
        assert await bob.count() == 2
        assert await ada.count() == 2
        await anyio.sleep(0.1)


async def messages_of_objects(connection: NatsConnection) -> int:
    state = (await connection.api("STREAM.INFO.OBJ_nekro_objects"))["state"]
    return int(state["messages"])


async def test_a_number_of_partitions_other_than_that_of_the_existing_log_is_refused(
    connection: NatsConnection,
) -> None:
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
        with anyio.fail_after(30):
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


async def test_a_worker_gives_up_a_partition_whose_next_epoch_another_worker_has_taken(
    connection: NatsConnection,
) -> None:
    """NATS gives the items of a partition only to the worker that has its *pin*. The other worker
    has lost the pin, so NATS gives the items to the old owner, which can store nothing for the
    partition."""
    book, diary = CountingBook(), Diary()
    log = await NatsPartitionLog.open(connection, book, partitions=1)
    async with working(log, "ada", diary):
        await until(lambda: diary.of("ada") == {0}, "the partition has an owner")
        await book.take(0, "bob")
        await until(lambda: diary.epochs[0] == [1, 3], "the partition is taken with a new epoch")
        await log.publish(0, b"after", item_id="after")
        await until(lambda: diary.items() == [b"after"], "its items are handled")


async def test_a_request_fails_at_once_when_its_server_is_killed(
    nats_server: NatsServer, connection: NatsConnection
) -> None:
    """Its answer can no longer arrive. A gateway that waited 5 s for it told no worker of new
    messages in this time."""
    asked = anyio.Event()

    async def ask(_: Msg) -> None:
        asked.set()

    await connection.client.subscribe("nobody.answers", cb=ask)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:

            async def kill() -> None:
                await asked.wait()
                nats_server.kill()

            tasks.start_soon(kill)
            with pytest.raises(ClusterUnavailable, match="was lost"):
                await connection.request("nobody.answers", b"", within_s=200)
    nats_server.start()
    await until(lambda: connection.client.is_connected, "the connection is back")
    await connection.api("INFO")


async def test_a_worker_handles_and_removes_the_items_of_a_full_log(
    connection: NatsConnection,
) -> None:
    log = await NatsPartitionLog.open(connection, CountingBook(), partitions=8)
    stream = await connection.api(f"STREAM.INFO.{PARTITION_STREAM}")
    small = stream["config"] | {"max_msgs": 3}
    await connection.api(f"STREAM.UPDATE.{PARTITION_STREAM}", small)
    for number in range(3):
        await log.publish(5, b"%d" % number, item_id=f"{number}")
    with pytest.raises(LogFull):
        await log.publish(5, b"3", item_id="3")
    diary = Diary()
    async with working(log, "ada", diary):
        await until(lambda: len(diary.items()) == 3, "the items of the full log are handled")
        await until(lambda: diary.of("ada") == {*range(8)}, "the idle partitions have an owner")
    assert [each for each in diary.items() if each] == [b"0", b"1", b"2"]


async def test_an_owner_that_was_only_slow_keeps_its_partitions(connection: NatsConnection) -> None:
    """The event loop of the owner stands still for longer than a pin lasts, as on a machine that is
    too busy. Nobody else has taken the partitions meanwhile."""
    times = OwnershipTimes(pin_s=1.0, renew_s=0.3)
    log = await NatsPartitionLog.open(connection, CountingBook(), partitions=4, times=times)
    diary = Diary()
    async with working(log, "ada", diary):
        await until(lambda: diary.of("ada") == {*range(4)}, "all partitions have an owner")
        for number in range(3):
            time.sleep(2.0)
            await log.publish(number, b"%d" % number, item_id=f"{number}")
            await until(lambda: len(diary.items()) == number + 1, "the item comes")  # noqa: B023
        with anyio.fail_after(30):
            while not all(view.owned for view in await log.look()):
                await anyio.sleep(0.05)
    assert diary.epochs == {partition: [1] for partition in range(4)}
    assert [tries for *_, tries in diary.handled] == [1, 1, 1]


async def test_an_owner_that_lost_its_pin_begins_anew_when_another_worker_has_the_next_epoch(
    connection: NatsConnection,
) -> None:
    times = OwnershipTimes(pin_s=1.0, renew_s=0.3)
    book, diary = CountingBook(), Diary()
    log = await NatsPartitionLog.open(connection, book, partitions=1, times=times)
    async with working(log, "ada", diary):
        await until(lambda: diary.of("ada") == {0}, "ada owns the partition")
        await book.take(0, "bob")
        group = {"group": GROUP}
        await connection.api(f"CONSUMER.UNPIN.{PARTITION_STREAM}.{consumer_of(0)}", group)
        await until(lambda: diary.epochs[0] == [1, 3], "ada begins anew")
    assert diary.epochs[0] == [1, 3]


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


@pytest.mark.parametrize("started_again", [False, True])
async def test_a_caller_learns_that_the_process_which_handled_its_call_was_killed(
    nats_server: NatsServer, connection: NatsConnection, *, started_again: bool
) -> None:
    url = read_cluster_url(nats_server.url)
    begun = anyio.Event()

    async def sleep(_: bytes) -> bytes:
        begun.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def kill(gateway: NatsConnection) -> None:
        await begun.wait()
        await gateway.client.close()  # Its answers and cancellations come no more.

    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(
            NatsConnection.open(url, name="killed", role="gateway")
        )
        await stack.enter_async_context(NatsCalls(gateway).serve("account", sleep))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(kill, gateway)
        if started_again:
            again = await stack.enter_async_context(
                NatsConnection.open(url, name="started again", role="gateway")
            )

            async def serve_again() -> None:
                await begun.wait()
                async with NatsCalls(again).serve("account", sleep):
                    await anyio.sleep_forever()

            tasks.start_soon(serve_again)
        with pytest.raises(CallTimedOut, match=r"account .* has ended; the call may have been"):
            await NatsCalls(connection).call("account", b"", within_s=60)
        tasks.cancel_scope.cancel()


async def test_an_answer_is_not_sent_to_a_reply_subject_that_workers_do_not_use(
    connection: NatsConnection,
) -> None:
    """A caller that chooses a subject of the leases must not make a gateway write there."""
    calls, client = NatsCalls(connection), connection.client
    lease = await client.subscribe("nekro.lease.account")

    async def echo(request: bytes) -> bytes:
        return request

    async with calls.serve("account.a", echo):
        subject = f"{CALL_SUBJECT}.{subject_of('account.a')}"
        await client.publish(subject, b"mine", reply="nekro.lease.account")
        assert await calls.call("account.a", b"hello", within_s=10) == b"hello"
        with pytest.raises(nats.errors.TimeoutError):
            await lease.next_msg(timeout=1.0)


async def test_a_call_that_takes_long_is_not_given_up(connection: NatsConnection) -> None:
    async def answer_late(request: bytes) -> bytes:
        await anyio.sleep(4)
        return request

    calls = NatsCalls(connection)
    async with calls.serve("account", answer_late):
        assert await calls.call("account", b"hello", within_s=60) == b"hello"


async def test_a_process_that_was_killed_gets_its_leases_back_under_its_name(
    connection: NatsConnection,
) -> None:
    killed, started_again = NatsLeases(connection), NatsLeases(connection)
    await killed.prepare()

    async def hold_until_it_is_taken() -> None:
        async with killed.hold("account.b", "gateway 1"):
            with pytest.raises(LeaseTaken, match="by gateway 1"):
                async with NatsLeases(connection).hold("account.b", "gateway 2"):
                    pass
            # The first holder renews the lease, so it would never run out.
            async with started_again.hold("account.b", "gateway 1"):
                await anyio.sleep(60)

    # The first holder was not really killed, so it learns at its next renewal what happened.
    with pytest.raises(LeaseLost, match=r"account\.b is used by another process now"):
        await hold_until_it_is_taken()


async def test_a_lease_is_not_current_after_a_suspension_until_it_is_renewed(
    connection: NatsConnection,
) -> None:
    leases = NatsLeases(connection, lasts_s=1.0)
    await leases.prepare()
    async with leases.hold("account.c", "gateway 1"):
        time.sleep(1.2)  # as if the process were suspended
        assert not leases.is_current("account.c")
        await until(lambda: leases.is_current("account.c"), "the lease is renewed")


async def test_a_renewal_whose_confirmation_was_lost_does_not_lose_the_lease(
    connection: NatsConnection,
) -> None:
    leases = NatsLeases(connection, lasts_s=1.0)
    await leases.prepare()
    client, subject = connection.client, f"{LEASE_SUBJECT}.account%2Ed"
    async with leases.hold("account.d", "gateway 1"):
        stored = await connection.api(f"STREAM.MSG.GET.{LEASE_STREAM}", {"last_by_subj": subject})
        # The same content again, as if NATS had stored a renewal and its answer had been lost.
        await client.publish(subject, base64.b64decode(stored["message"]["data"]))
        await anyio.sleep(1.5)
        await until(lambda: leases.is_current("account.d"), "the lease is renewed in time or late")


async def test_a_call_whose_id_is_under_way_already_is_refused(connection: NatsConnection) -> None:
    asked: list[bytes] = []

    async def answer_late(request: bytes) -> bytes:
        asked.append(request)
        await anyio.sleep(1)
        return request

    async with NatsCalls(connection).serve("account.e", answer_late):

        async def call(text: bytes) -> Msg:
            return await connection.client.request(
                f"{CALL_SUBJECT}.account%2Ee", text, timeout=10, headers={"Nekro-Call": "one id"}
            )

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, b"first")
            await until(lambda: asked == [b"first"], "the first call is being handled")
            assert b"id is being handled already" in (await call(b"second")).data
        assert (await call(b"third")).data == b"third", "the process still answers"
    assert asked == [b"first", b"third"]


async def test_an_error_text_with_half_a_character_does_not_end_the_process_that_serves_calls(
    connection: NatsConnection,
) -> None:
    async def fail(request: bytes) -> bytes:
        if request == b"fail":
            raise ClusterUnavailable("the platform says \ud83d")
        return request

    calls = NatsCalls(connection)
    async with calls.serve("account.f", fail):
        with pytest.raises(CallFailed, match="the platform says"):
            await calls.call("account.f", b"fail", within_s=5)
        assert await calls.call("account.f", b"hello", within_s=5) == b"hello"


async def test_a_server_that_is_away_at_the_start_is_named() -> None:
    url = read_cluster_url("nats://127.0.0.1:9")
    with (
        pytest.raises(ClusterUnavailable, match=r"no NATS server answered at nats://127.0.0.1:9"),
        anyio.fail_after(60),
    ):
        async with NatsConnection.open(url, name="a test", role="worker", wait_s=1.0):
            pass


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


def test_a_refused_user_is_named_although_the_connection_was_reset_afterwards() -> None:
    url = read_cluster_url("nats://worker:wrong@127.0.0.1:4222")
    problems = ["[Errno 104] Connection reset by peer", "nats: 'Authorization Violation'", ""]
    error = _explained(url, problems, 2.0)
    assert isinstance(error, ClusterMisconfigured)
    assert "Authorization Violation" in str(error)


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


async def test_a_server_without_the_tls_that_the_url_demands_does_not_get_the_password() -> None:
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
