"""The users that `nekro cluster credentials` makes may do what their role needs, and no more."""

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import anyio
import nats.errors
import pytest
from nats.aio.msg import Msg

from nekro_core.cli import main
from nekro_core.cluster.calls import CallCarrier
from nekro_core.cluster.cluster_url import read_cluster_url
from nekro_core.cluster.credentials import (
    ClusterCredentials,
    ClusterRole,
    CredentialsExist,
    write_configuration,
)
from nekro_core.cluster.errors import (
    CallTimedOut,
    ClusterError,
    ClusterUnavailable,
    LeaseTaken,
)
from nekro_core.cluster.nats_calls import TO_WORKERS, NatsCalls
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.nats_leases import NatsLeases
from nekro_core.cluster.nats_log import NatsPartitionLog
from nekro_core.cluster.nats_objects import NatsObjects
from nekro_core.cluster.nats_partition import GROUP
from tests.peers import nats as nats_peer

from .conformance import Diary, until, working
from .conftest import CountingBook, Roles


@pytest.fixture
async def one_account(nats_server: nats_peer.NatsServer) -> AsyncIterator[Roles]:
    """Connections to a server that has no accounts, such as `nats-server -js`."""
    url = read_cluster_url(nats_server.url)
    async with (
        NatsConnection.open(url, name="gateway", role="gateway") as gateway,
        NatsConnection.open(url, name="thief", role="worker") as thief,
    ):
        yield {ClusterRole.GATEWAY: gateway, ClusterRole.WORKER: thief}


@pytest.mark.long
async def test_a_gateway_and_a_worker_can_do_their_work(roles: Roles, tmp_path: Path) -> None:
    gateway, worker = roles[ClusterRole.GATEWAY], roles[ClusterRole.WORKER]
    with pytest.raises(ClusterUnavailable, match="start a gateway first"):
        await NatsPartitionLog.open(worker, CountingBook(), partitions=4, make=False)
    log = await NatsPartitionLog.open(gateway, CountingBook(), partitions=4)
    theirs = await NatsPartitionLog.open(worker, CountingBook(), partitions=4, make=False)
    diary = Diary()
    async with working(theirs, "ada", diary):
        await log.publish(1, b"hello", item_id="a")
        await until(lambda: diary.items() == [b"hello"], "the worker handles the item")

    async def upper(request: bytes) -> bytes:
        return request.upper()

    carrier: CallCarrier = NatsCalls(worker)
    async with NatsCalls(gateway).serve("account.fake", upper):
        assert await carrier.call("account.fake", b"hello", within_s=5) == b"HELLO"
    objects, same = await NatsObjects.open(gateway), await NatsObjects.open(worker, make=False)
    file = tmp_path / "file"
    file.write_bytes(b"x" * 300_000)
    await same.put("outgoing/a", file)
    assert await objects.fetch("outgoing/a", tmp_path / "copy") == 300_000
    assert await same.names() == ["outgoing/a"]
    assert await same.delete("outgoing/a")


@pytest.mark.long
async def test_a_stolen_password_of_a_worker_does_not_reach_the_gateways_subjects(
    roles: Roles,
) -> None:
    gateway, thief = roles[ClusterRole.GATEWAY], roles[ClusterRole.WORKER]
    await NatsPartitionLog.open(gateway, CountingBook(), partitions=4)
    await NatsObjects.open(gateway)
    heard: list[str] = []

    async def listen(message: object) -> None:
        heard.append(repr(message))

    for subject in (">", "nekro.call.>", "nekro.partition.>", "_INBOX_gateway.>", "$JS.>"):
        await thief.client.subscribe(subject, cb=listen)

    async def upper(request: bytes) -> bytes:
        return request.upper()

    async with NatsCalls(gateway).serve("account.fake", upper):
        assert await NatsCalls(thief).call("account.fake", b"hello", within_s=5) == b"HELLO"
    for call in (
        "STREAM.DELETE.nekro_partitions",
        "STREAM.PURGE.nekro_partitions",
        "STREAM.UPDATE.nekro_partitions",
        "STREAM.MSG.GET.nekro_partitions",
        "CONSUMER.DELETE.nekro_partitions.partition_1",
        "STREAM.CREATE.nekro_workers",
        "STREAM.UPDATE.nekro_workers",
        "STREAM.DELETE.nekro_workers",
        "STREAM.MSG.GET.nekro_leases",
        "STREAM.PURGE.nekro_leases",
    ):
        with pytest.raises(ClusterUnavailable):
            await thief.api(call, within_s=0.3)
    await anyio.sleep(0.5)
    assert heard == []
    info = await gateway.api("STREAM.INFO.nekro_partitions")
    assert info["state"]["consumer_count"] == 4


@pytest.mark.long
async def test_a_thief_has_no_answer_sent_to_a_lease(roles: Roles) -> None:
    gateway, thief = roles[ClusterRole.GATEWAY], roles[ClusterRole.WORKER]
    await NatsPartitionLog.open(gateway, CountingBook(), partitions=4)
    leases = NatsLeases(gateway, secret="of gateways", lasts_s=600.0)  # no renewal in this test
    await leases.prepare()
    lease = "nekro.lease.account%2Ea"
    async with leases.hold("account.a", "gateway 1"):
        await thief.client.publish("nekro.partition.1", b"item", reply=lease)
        await thief.client.publish("$JS.API.INFO", b"", reply=lease)
        await thief.request("nekro.partition.1", b"NATS has read what was sent before")
        await anyio.sleep(0.5)
        found = await gateway.api("STREAM.MSG.GET.nekro_leases", {"last_by_subj": lease})
        assert found["message"]["seq"] == 1


@pytest.mark.long
async def test_who_has_nats_send_answers_to_a_lease_takes_no_account_from_a_gateway(
    one_account: Roles,
) -> None:
    """On a server without accounts, NATS does not check the subject to which somebody has it send
    an answer."""
    gateway, thief = one_account[ClusterRole.GATEWAY], one_account[ClusterRole.WORKER]
    await NatsPartitionLog.open(gateway, CountingBook(), partitions=4)
    holder = NatsLeases(gateway, secret="of gateways", lasts_s=1.5)
    await holder.prepare()
    other = NatsLeases(gateway, secret="of gateways", lasts_s=1.5)
    lease = "nekro.lease.account%2Ea"
    async with holder.hold("account.a", "gateway 1"):
        for _ in range(4):
            await thief.client.publish("nekro.partition.1", b"item", reply=lease)
            await thief.client.publish("$JS.API.INFO", b"", reply=lease)
            await anyio.sleep(0.4)
        assert await is_written_over(gateway, lease)
        with pytest.raises(LeaseTaken, match="by gateway 1"):
            async with other.hold("account.a", "gateway 2"):
                pass
        await until(lambda: holder.is_current("account.a"), "the lease is renewed")


@pytest.mark.long
async def test_a_thief_that_has_nats_deliver_a_stored_message_calls_no_worker(
    guarded: tuple[nats_peer.NatsServer, ClusterCredentials], roles: Roles
) -> None:
    """NATS does not check the subject to which it delivers the messages of a stream. So a worker
    can have bytes of its choice delivered where only a gateway may send to."""
    gateway, thief = roles[ClusterRole.GATEWAY], roles[ClusterRole.WORKER]
    await NatsPartitionLog.open(gateway, CountingBook(), partitions=4)
    await NatsObjects.open(gateway)
    server, credentials = guarded
    url = credentials.url(ClusterRole.WORKER, f"127.0.0.1:{server.port}", tls=False)
    handled: list[bytes] = []
    delivered: list[str] = []

    async def note(request: bytes) -> bytes:
        handled.append(request)
        return b"done"

    async def listen(message: Msg) -> None:
        delivered.append(message.reply)

    await thief.request("$O.nekro_objects.C.thief", b"forged by push")
    await thief.request("nekro.partition.1", b"forged by pull")
    async with (
        NatsConnection.open(read_cluster_url(url), name="bob", role="worker") as bob,
        NatsCalls(bob, TO_WORKERS).serve("bob", note),
    ):
        for subject in ("nekro.worker_call.bob", "nekro.worker_cancel.bob"):
            await thief.client.subscribe(subject, cb=listen)
            pushed = {"deliver_policy": "all", "ack_policy": "none", "deliver_subject": subject}
            for group in ({}, {"deliver_group": "servers"}):
                config = {"stream_name": "OBJ_nekro_objects", "config": {**pushed, **group}}
                with suppress(ClusterError):
                    await thief.api("CONSUMER.CREATE.OBJ_nekro_objects", config)
            await thief.client.publish(
                "$JS.API.CONSUMER.MSG.NEXT.nekro_partitions.partition_1",
                b'{"batch": 1, "expires": 1000000000, "group": "owner"}',
                reply=subject,
            )
        await until(lambda: len(delivered) > 0, "NATS delivers a stored message to the worker")
        await anyio.sleep(0.5)
        assert all(each.startswith("$JS.ACK.") for each in delivered)
        assert handled == []
        answer = await NatsCalls(gateway, TO_WORKERS).call("bob", b"asked", within_s=5)
        assert answer == b"done"
    assert handled == [b"asked"]


@pytest.mark.long
async def test_a_worker_that_sees_the_inbox_of_a_call_cannot_work_out_the_next_one(
    roles: Roles,
) -> None:
    """NATS delivers to the inboxes of gateways whatever a worker has it send there."""
    gateway, thief = roles[ClusterRole.GATEWAY], roles[ClusterRole.WORKER]
    seen: list[str] = []

    async def answer(message: Msg) -> None:
        seen.append(message.reply)
        await message.respond(b"done")

    await thief.client.subscribe("nekro.worker_call.bob", cb=answer)
    await thief.client.flush()
    for _ in range(3):
        assert await NatsCalls(gateway, TO_WORKERS).call("bob", b"", within_s=5) == b"done"
    names = [each.rpartition(".")[2] for each in seen]
    # Of the names that the library nats-py makes, the first 12 characters are the same.
    assert len({each[:12] for each in names}) == 3


@pytest.mark.long
async def test_a_thief_that_has_nats_send_answers_to_its_api_changes_no_stream(
    roles: Roles,
) -> None:
    """NATS does not check the subject to which a user has it send an answer. If gateways and
    workers were in one account, NATS would carry out those of these requests that have no
    content."""
    gateway, thief = roles[ClusterRole.GATEWAY], roles[ClusterRole.WORKER]
    log = await NatsPartitionLog.open(gateway, CountingBook(), partitions=4)
    await NatsObjects.open(gateway)
    await NatsLeases(gateway).prepare()
    for number in range(3):
        await log.publish(3, b"%d" % number, item_id=f"{number}")
    before = await all_streams(gateway)
    assert len(before) == 4
    ask = json.dumps({"batch": 1, "no_wait": True, "group": GROUP}).encode()
    empty = "$JS.API.CONSUMER.MSG.NEXT.nekro_partitions.partition_2"
    inbox = await thief.client.subscribe("_INBOX_worker.thief")
    # The answer "there is no item" has no content: NATS takes it for a request without content.
    for call in (
        *(f"STREAM.DELETE.{stream}" for stream in before),
        *(f"STREAM.PURGE.{stream}" for stream in before),
        "CONSUMER.DELETE.nekro_partitions.partition_1",
    ):
        await thief.client.publish(empty, ask, reply=f"$JS.API.{call}")
    # An item has any content: the thief has written it.
    created = {"name": "thief", "subjects": ["nekro.call.>"], "storage": "file"}
    updated = {"name": "nekro_partitions", "subjects": ["nekro.partition.*", "nekro.call.>"]}
    full = "$JS.API.CONSUMER.MSG.NEXT.nekro_partitions.partition_0"
    for call, content in (
        ("STREAM.CREATE.thief", created),
        ("STREAM.UPDATE.nekro_partitions", before["nekro_partitions"] | updated),
    ):
        await thief.request("nekro.partition.0", json.dumps(content).encode())
        body = json.dumps({"batch": 1, "expires": 1_000_000_000, "group": GROUP}).encode()
        await thief.client.publish(full, body, reply=f"$JS.API.{call}")
    # NATS has read all of that when it has answered this.
    await thief.client.publish(empty, ask, reply="_INBOX_worker.thief")
    assert (await inbox.next_msg(timeout=10)).headers
    await anyio.sleep(1.0)
    assert await all_streams(gateway) == before
    state = (await gateway.api("STREAM.INFO.nekro_partitions"))["state"]
    assert state["consumer_count"] == 4
    assert state["first_seq"] == 1, "the log was not emptied"


async def all_streams(gateway: NatsConnection) -> dict[str, dict[str, object]]:
    """Return the configuration of each stream, by its name."""
    names = (await gateway.api("STREAM.NAMES"))["streams"]
    found = {}
    for name in names:
        # A gateway may not read the information about the streams of presence and leases.
        permitted = name in ("nekro_partitions", "OBJ_nekro_objects")
        found[name] = (await gateway.api(f"STREAM.INFO.{name}"))["config"] if permitted else {}
    return found


@pytest.mark.long
async def test_a_caller_of_the_other_account_waits_for_a_slow_call_and_notices_a_lost_one(
    guarded: tuple[nats_peer.NatsServer, ClusterCredentials], roles: Roles
) -> None:
    server, credentials = guarded
    url = credentials.url(ClusterRole.GATEWAY, f"127.0.0.1:{server.port}", tls=False)
    worker = NatsCalls(roles[ClusterRole.WORKER])
    begun = anyio.Event()

    async def answer_late(request: bytes) -> bytes:
        if request == b"for ever":
            begun.set()
            await anyio.sleep_forever()
        await anyio.sleep(3.5)
        return request

    async with (
        NatsConnection.open(read_cluster_url(url), name="killed", role="gateway") as gateway,
        NatsCalls(gateway).serve("account.fake", answer_late),
    ):
        assert await worker.call("account.fake", b"slow", within_s=60) == b"slow"
        async with anyio.create_task_group() as tasks:

            async def kill() -> None:
                await begun.wait()
                await gateway.client.close()

            tasks.start_soon(kill)
            with anyio.fail_after(30), pytest.raises(CallTimedOut, match="has ended"):
                await worker.call("account.fake", b"for ever", within_s=60)


@pytest.mark.long
async def test_a_worker_may_not_make_a_consumer_of_objects_which_could_send_to_any_subject(
    roles: Roles,
) -> None:
    gateway, thief = roles[ClusterRole.GATEWAY], roles[ClusterRole.WORKER]
    await NatsObjects.open(gateway)
    await thief.request("$O.nekro_objects.C.thief", b"content")
    config = {"deliver_policy": "all", "ack_policy": "none", "deliver_subject": "nekro.lease.a"}
    body = {"stream_name": "OBJ_nekro_objects", "config": config}
    for call in ("CONSUMER.CREATE.OBJ_nekro_objects", "CONSUMER.CREATE.OBJ_nekro_objects.thief"):
        with pytest.raises(ClusterUnavailable):
            await thief.api(call, body, within_s=0.3)


@pytest.mark.long
async def test_nobody_can_send_a_call_that_looks_as_if_it_came_from_the_other_account(
    roles: Roles,
) -> None:
    gateway, thief = roles[ClusterRole.GATEWAY], roles[ClusterRole.WORKER]
    handled: list[bytes] = []

    async def note(request: bytes) -> bytes:
        handled.append(request)
        return b"done"

    async with NatsCalls(gateway).serve("account.fake", note):
        with suppress(nats.errors.Error):
            await thief.client.publish("nekro.call.account%2Efake", b"forged", reply="_R_.thief")
        assert await NatsCalls(thief).call("account.fake", b"asked", within_s=10) == b"done"
    assert handled == [b"asked"]


async def is_written_over(gateway: NatsConnection, lease: str) -> bool:
    """Return whether more messages were written to a lease than its holder writes in 2 s, with a
    renewal every half second."""
    found = await gateway.api("STREAM.MSG.GET.nekro_leases", {"last_by_subj": lease})
    return int(found["message"]["seq"]) > 8


@pytest.mark.long
async def test_a_lease_that_a_thief_has_written_can_still_be_taken_by_a_gateway(
    one_account: Roles,
) -> None:
    gateway, thief = one_account[ClusterRole.GATEWAY], one_account[ClusterRole.WORKER]
    leases = NatsLeases(gateway, secret="of gateways")
    await leases.prepare()
    await thief.client.publish("$JS.API.INFO", b"", reply="nekro.lease.account%2Eb")
    await anyio.sleep(0.3)
    with anyio.fail_after(5):
        async with leases.hold("account.b", "gateway 1"):
            assert leases.is_current("account.b")


def test_the_command_credentials_writes_a_file_that_only_its_owner_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "nats.conf"
    words = ["cluster", "credentials", str(file), "--certificate", "c.pem", "--key", "k.pem"]
    assert main([*words, "--server", "nats.example.org"]) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    said = capsys.readouterr().out
    lines = [line.rpartition(" ")[2] for line in said.splitlines() if "NEKRO_CLUSTER_URL" in line]
    assert [read_cluster_url(line).encrypted for line in lines] == [True, True]
    text = file.read_text()
    for line in lines:
        assert line.partition("@")[0].rpartition(":")[2] in text
    assert main(words) == 1
    assert "exists" in capsys.readouterr().err
    assert file.read_text() == text


def test_the_command_credentials_refuses_a_certificate_without_its_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "nats.conf"
    assert main(["cluster", "credentials", str(file), "--certificate", "c.pem"]) == 2
    assert "give both or none" in capsys.readouterr().err
    assert main(["cluster", "credentials", str(file), "--port", "0"]) == 2
    assert "expected 1 to 65535" in capsys.readouterr().err
    assert not file.exists()


def test_passwords_are_new_each_time(tmp_path: Path) -> None:
    first, second = ClusterCredentials.make(), ClusterCredentials.make()
    found = {*first.passwords.values(), *second.passwords.values()}
    assert len(found) == 4
    assert min(map(len, found)) >= 43
    write_configuration(tmp_path / "a", "x")
    with pytest.raises(CredentialsExist, match="passwords are in use"):
        write_configuration(tmp_path / "a", "y")
