"""A gateway asks another process by its name and gets its answer. A request or an answer that is
wrong or forged does nothing."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nekro_core.cluster.cluster_url import read_cluster_url
from nekro_core.cluster.credentials import ClusterCredentials, ClusterRole
from nekro_core.cluster.errors import CallFailed, CallTimedOut, NobodyServes
from nekro_core.cluster.local_calls import LocalCalls
from nekro_core.cluster.local_objects import LocalObjects
from nekro_core.cluster.nats_calls import TO_GATEWAYS, TO_WORKERS, NatsCalls
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.process_calls import INLINE_BYTES, ProcessCalls
from nekro_core.cluster.process_messages import (
    AskedBy,
    OperationDone,
    OperationRequest,
    ProcessAnswer,
    ProcessRequest,
    ProcessState,
    StateRequest,
    StoredMessage,
    encode_message,
)
from tests.peers import nats as nats_peer

WORKER, GATEWAY = ClusterRole.WORKER, ClusterRole.GATEWAY
LIN = AskedBy("lin", "operator", "page")


async def echo(request: ProcessRequest) -> ProcessAnswer:
    """Answer an operation with the text of its parameters, and a `StateRequest` with a state."""
    if isinstance(request, StateRequest):
        return ProcessState("ada", "1.0", 5.0, partitions=3)
    return OperationDone(request.parameters["text"])


@pytest.fixture
def calls(tmp_path: Path) -> ProcessCalls:
    carriers = {WORKER: LocalCalls(), GATEWAY: LocalCalls()}
    return ProcessCalls(carriers, LocalObjects(tmp_path / "objects"), tmp_path / "scratch")


async def test_a_worker_tells_its_state_and_carries_an_operation_out(calls: ProcessCalls) -> None:
    async with calls.serve(WORKER, "ada", echo):
        state = await calls.ask(WORKER, "ada", StateRequest(), within_s=5)
        assert state == ProcessState("ada", "1.0", 5.0, partitions=3)
        half = "a half of a character: \ud83d"
        asked = OperationRequest("boxes.files", {"text": half}, LIN)
        assert await calls.ask(WORKER, "ada", asked, within_s=5) == OperationDone(half)
    with pytest.raises(NobodyServes):
        await calls.ask(WORKER, "ada", StateRequest(), within_s=5)
    async with calls.serve(WORKER, "ada", echo):
        with pytest.raises(NobodyServes):
            await calls.ask(GATEWAY, "ada", StateRequest(), within_s=5)


async def test_a_large_file_goes_through_the_object_store_which_is_empty_afterwards(
    calls: ProcessCalls, tmp_path: Path
) -> None:
    text = "x" * (INLINE_BYTES + 1)
    async with calls.serve(WORKER, "ada", echo):
        asked = OperationRequest("boxes.put_file", {"text": text}, LIN)
        assert await calls.ask(WORKER, "ada", asked, within_s=5) == OperationDone(text)
    assert await calls.objects.names() == []
    assert [*(tmp_path / "scratch").iterdir()] == []


async def test_a_request_cannot_have_a_stored_medium_deleted(
    calls: ProcessCalls, tmp_path: Path
) -> None:
    file = tmp_path / "picture"
    file.write_bytes(encode_message(StateRequest()))
    await calls.objects.put("media/a", file)
    async with calls.serve(WORKER, "ada", echo):
        request = encode_message(StoredMessage("media/a"))
        with pytest.raises(CallFailed, match="is no object of a message"):
            await calls.carriers[WORKER].call("ada", request, within_s=5)
    assert await calls.objects.names() == ["media/a"]


@pytest.mark.parametrize("answer", [b"", b"[1]", b"nonsense", b'{"type":"x"}', b"[" * 100_000])
async def test_an_answer_that_cannot_be_read_is_an_error(
    calls: ProcessCalls, answer: bytes
) -> None:
    async def nonsense(_: bytes) -> bytes:
        return answer

    async with calls.carriers[WORKER].serve("ada", nonsense):
        with pytest.raises(CallFailed, match="another process"):
            await calls.ask(WORKER, "ada", StateRequest(), within_s=5)


@pytest.fixture
async def connections(
    guarded: tuple[nats_peer.NatsServer, ClusterCredentials],
) -> AsyncIterator[dict[ClusterRole, NatsConnection]]:
    server, credentials = guarded
    gateway, worker = (
        read_cluster_url(credentials.url(role, f"127.0.0.1:{server.port}", tls=False))
        for role in (GATEWAY, WORKER)
    )
    async with (
        NatsConnection.open(gateway, name="gateway", role="gateway") as first,
        NatsConnection.open(worker, name="worker", role="worker") as second,
    ):
        yield {GATEWAY: first, WORKER: second}


async def upper(request: bytes) -> bytes:
    return request.upper()


@pytest.mark.long
async def test_a_gateway_calls_workers_and_gateways_with_the_users_of_the_credentials(
    connections: dict[ClusterRole, NatsConnection],
) -> None:
    gateway, worker = connections[GATEWAY], connections[WORKER]
    async with NatsCalls(worker, TO_WORKERS).serve("ada", upper):
        carrier = NatsCalls(gateway, TO_WORKERS)
        for _ in range(5):
            assert await carrier.call("ada", b"hello", within_s=5) == b"HELLO"
        with pytest.raises(NobodyServes):
            await carrier.call("bob", b"hello", within_s=5)
    async with NatsCalls(gateway, TO_GATEWAYS).serve("gate", upper):
        assert await NatsCalls(gateway, TO_GATEWAYS).call("gate", b"x", within_s=5) == b"X"


@pytest.mark.long
async def test_a_thief_of_a_workers_password_calls_no_process_and_forges_no_answer(
    connections: dict[ClusterRole, NatsConnection],
) -> None:
    gateway, thief = connections[GATEWAY], connections[WORKER]
    carried_out: list[bytes] = []

    async def note(request: bytes) -> bytes:
        carried_out.append(request)
        return b""

    heard: list[str] = []

    async def listen(message: object) -> None:
        heard.append(repr(message))

    inbox = "_INBOX_gateway.a_request_of_jetstream"
    await gateway.client.subscribe(inbox, cb=listen)
    async with (
        NatsCalls(gateway, TO_GATEWAYS).serve("gate", note),
        NatsCalls(thief, TO_WORKERS).serve("ada", upper),
    ):
        for subjects, name in ((TO_GATEWAYS, "gate"), (TO_WORKERS, "ada")):
            with pytest.raises(CallTimedOut):
                await NatsCalls(thief, subjects).call(name, b"stop", within_s=0.3)
        # The thief was asked as "ada" and may answer, but not in another inbox.
        assert await NatsCalls(gateway, TO_WORKERS).call("ada", b"a", within_s=5) == b"A"
        await thief.client.publish(inbox, b"you have the lease")
        await thief.client.subscribe("nekro.gateway_call.*", cb=listen)
        await NatsCalls(gateway, TO_GATEWAYS).call("gate", b"the log", within_s=5)
        await anyio.sleep(0.2)
    assert carried_out == [b"the log"]
    assert heard == []
