"""The console of a gateway shows and changes the boxes, timers and conversations of the workers. It
also shows their logs, and which worker owns a chat. The gateway and the workers share a PostgreSQL
database. Their calls go through `LocalCalls` here; tests/e2e/test_cluster_console.py has NATS and
real processes."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import anyio
import pytest

from nekro_core.app.app import App
from nekro_core.app.cluster.console_link import answering_consoles
from nekro_core.app.cluster.gateway import no_chat
from nekro_core.app.cluster.link import ClusterLink
from nekro_core.app.cluster.other_processes import ClusterProcesses
from nekro_core.app.process_role import ProcessRole
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey, Text
from nekro_core.cluster.calls import CallCarrier
from nekro_core.cluster.carried_media import OUTGOING
from nekro_core.cluster.credentials import ClusterRole
from nekro_core.cluster.errors import ClusterUnavailable
from nekro_core.cluster.local_calls import LocalCalls
from nekro_core.cluster.local_objects import LocalObjects
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.partition_log import partition_of
from nekro_core.cluster.process_messages import (
    OperationDone,
    OperationRefused,
    ProcessAnswer,
    ProcessRequest,
    RefusalKind,
    StoredMessage,
    ToolRequest,
    UndoData,
    encode_message,
)
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.operator.errors import (
    InvalidParameters,
    NoSuchItem,
    NotAllowed,
    ProcessAway,
    RefusedElsewhere,
)
from nekro_core.operator.operator import Operator
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.store import Ownership, Store
from tests.peers.postgres import PostgresServer

pytestmark = [pytest.mark.jail, pytest.mark.long]

PARTITIONS = 4
GROUP = ChatKey.parse("web-group_tea")
OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.PAGE)
VERA = Actor(name="vera", role=AccessRole.VIEWER, origin=RequestOrigin.PAGE)


@dataclass
class Process:
    """A gateway or a worker in the test's process."""

    name: str
    app: App
    owned: dict[int, Ownership] = field(default_factory=dict)

    @property
    def operator(self) -> Operator:
        return self.app.operations

    @property
    def store(self) -> Store:
        return self.app.message_io.store

    async def own(self, chat_key: ChatKey) -> None:
        """Become the owner of a chat."""
        partition = partition_of(chat_key, PARTITIONS)
        self.owned[partition] = await self.store.partitions.take(partition, self.name)


@dataclass
class SmallCluster:
    """A gateway and two workers."""

    gateway: Process
    ada: Process
    bob: Process

    @property
    def console(self) -> Operator:
        return self.gateway.operator


@asynccontextmanager
async def process(
    folder: Path,
    name: str,
    role: ClusterRole,
    database: str,
    calls: dict[ClusterRole, CallCarrier],
) -> AsyncIterator[Process]:
    settings = Settings(  # type: ignore[call-arg]
        nekro_data_dir=folder / name, nekro_database_url=database, _env_file=None
    )
    store = settings.nekro_store.model_copy(update={"node": name})
    settings = settings.model_copy(
        update={"nekro_store": store, "nekro_node": name, "nekro_documents": "database"}
    )
    objects = LocalObjects(folder / "objects")
    owned: dict[int, Ownership] = {}
    worker = role is ClusterRole.WORKER
    part = ProcessRole(process=name, runs_code=worker, own_accounts=True, objects=objects)
    part = replace(part, chats=lambda key: partition_of(key, PARTITIONS) in owned)
    if not worker:
        part = replace(part, chats=no_chat)
    link = ClusterLink(
        node=name,
        role=role,
        partitions=PARTITIONS,
        connection=cast("NatsConnection", None),
        calls=LocalCalls(),
        process_calls=calls,
        leases=cast("object", None),  # type: ignore[arg-type]
        objects=objects,
    )
    async with App.open(settings, {}, model=ScriptedModel(lambda _: "hi"), role=part) as app:
        await app.message_io.store.partitions.prepare(PARTITIONS)
        async with answering_consoles(app, link, owned=owned):
            yield Process(name, app, owned)


@pytest.fixture
async def cluster(tmp_path: Path, postgres: PostgresServer) -> AsyncIterator[SmallCluster]:
    database = await postgres.empty_database()
    calls: dict[ClusterRole, CallCarrier] = {each: LocalCalls() for each in ClusterRole}
    async with (
        process(tmp_path, "gate", ClusterRole.GATEWAY, database, calls) as gateway,
        process(tmp_path, "ada", ClusterRole.WORKER, database, calls) as ada,
        process(tmp_path, "bob", ClusterRole.WORKER, database, calls) as bob,
    ):
        yield SmallCluster(gateway, ada, bob)


async def listed(cluster: SmallCluster) -> dict[str, tuple[str, bool, int]]:
    found = await cluster.console.cluster.processes(VERA)
    return {each.node: (each.role, each.reachable, each.partitions) for each in found}


async def test_the_console_lists_all_processes_and_names_the_worker_of_a_chat(
    cluster: SmallCluster,
) -> None:
    await cluster.ada.own(GROUP)
    expected = {
        "gate": ("gateway", True, 0),
        "ada": ("worker", True, 1),
        "bob": ("worker", True, 0),
    }
    with anyio.move_on_after(30):
        while await listed(cluster) != expected:  # each process puts itself into the list
            await anyio.sleep(0.02)
    assert await listed(cluster) == expected
    here = [each.node for each in await cluster.console.cluster.processes(VERA) if each.here]
    assert here == ["gate"]
    others = cluster.gateway.app.turns.others
    assert isinstance(others, ClusterProcesses)
    await others.look()
    assert await cluster.console.cluster.worker_of(VERA, chat_key=GROUP) == "ada"


async def test_boxes_and_their_files_are_those_of_the_worker_that_owns_the_chat(
    cluster: SmallCluster,
) -> None:
    await cluster.ada.own(GROUP)
    boxes = cluster.console.boxes
    assert await boxes.of_chat(VERA, chat_key=GROUP) == []
    content = base64.b64encode(b"x" * 1_000_000).decode()  # too large for one call
    given = {"chat_key": str(GROUP), "path": "tea.bin", "content": content}
    with pytest.raises(NoSuchItem, match="no box 'default'"):
        await boxes.put_file.invoke(OTTO, given)
    held = await cluster.ada.app.runtime.services.boxes.open(GROUP)
    await cluster.ada.app.runtime.services.boxes.close(GROUP, held, changed=False)
    (box,) = await boxes.of_chat(VERA, chat_key=GROUP)
    assert (box.name, box.awake) == ("default", True)
    assert (await boxes.put_file.invoke(OTTO, given)).result == 1_000_000
    assert "tea.bin" in (await boxes.files(OTTO, chat_key=GROUP)).paths
    assert await boxes.read_file(OTTO, GROUP, "default", "tea.bin") == b"x" * 1_000_000
    assert (await cluster.console.erasure.kept(VERA, chat_key=GROUP)).boxes == 1
    (entry, *_) = await cluster.console.audit.newest(OTTO, area="boxes")
    assert (entry.action, entry.outcome, entry.actor) == ("boxes.put_file", "done", "otto")
    assert content[:100] not in str(entry)
    with pytest.raises(NotAllowed):
        await boxes.end(VERA, chat_key=GROUP)
    await boxes.end(OTTO, chat_key=GROUP)
    assert await cluster.ada.operator.boxes.of_chat(VERA, chat_key=GROUP) == []


async def test_an_operation_is_asked_of_the_newest_owner_and_fails_if_no_worker_owns_the_chat(
    cluster: SmallCluster,
) -> None:
    with pytest.raises(ProcessAway, match="no worker owns the chat web-group_tea now"):
        await cluster.console.boxes.of_chat(VERA, chat_key=GROUP)
    await cluster.ada.own(GROUP)
    await cluster.bob.own(GROUP)
    # The worker ada still believes that it owns the chat, but only bob is asked.
    await cluster.console.timers.set_recurring(OTTO, chat_key=GROUP, cron="@daily", text="tea")
    assert [each.text for each in cluster.bob.app.message_io.timers.all()] == ["tea"]
    cluster.bob.owned.clear()
    with pytest.raises(ProcessAway, match="worker bob: this worker does not own"):
        await cluster.console.boxes.of_chat(VERA, chat_key=GROUP)


async def test_timers_of_all_workers_are_shown_and_changed_at_the_owner(
    cluster: SmallCluster,
) -> None:
    await cluster.ada.own(GROUP)
    timers = cluster.console.timers
    made = await timers.set_recurring(OTTO, chat_key=GROUP, cron="0 8 * * *", text="tea")
    (row,) = await timers.all(VERA, chat_key=GROUP)
    assert (row.text, row.timer_id) == ("tea", made.result.timer_id)
    assert [each.text for each in cluster.ada.app.message_io.timers.all()] == ["tea"]
    paused = await timers.pause(OTTO, timer_id=row.timer_id)
    assert (paused.result.state, paused.undoable) == ("paused", True)
    await cluster.console.audit.undo(OTTO, entry_id=paused.entry_id)
    (row,) = await timers.all(VERA)
    assert row.state == "active"
    with pytest.raises(RefusedElsewhere, match="Bad day-of-month"):
        await timers.set_recurring(OTTO, chat_key=GROUP, cron="0 0 31 2 *", text="never")
    with pytest.raises(NoSuchItem, match="no timer 'x'"):
        await timers.delete(OTTO, timer_id="x")
    await timers.delete(OTTO, timer_id=row.timer_id)
    assert await timers.all(VERA) == []
    assert await timers.tasks(VERA) == []
    with pytest.raises(NoSuchItem, match="no task"):
        await timers.cancel_task(OTTO, task_type="a", task_id="b")


async def test_the_log_of_a_worker_is_read_at_a_gateway(cluster: SmallCluster) -> None:
    lines = await cluster.console.logs.newest(VERA, process="ada")
    assert lines == await cluster.ada.operator.logs.newest(VERA)
    with pytest.raises(NoSuchItem, match="there is no process 'eva'"):
        await cluster.console.logs.newest(VERA, process="eva")


async def test_a_worker_carries_out_only_what_concerns_a_chat_that_it_owns(
    cluster: SmallCluster,
) -> None:
    await cluster.ada.own(GROUP)
    others = cluster.console.cluster.others
    assert others is not None
    elsewhere = ChatKey.parse("web-group_coffee")
    with pytest.raises(InvalidParameters, match="do not concern"):
        await others.at_owner(cluster.console.boxes.of_chat, VERA, GROUP, {"chat_key": elsewhere})
    with pytest.raises(NotAllowed, match="cannot be asked of another process"):
        await others.at_owner(cluster.console.statistics.today, OTTO, GROUP, {})
    with pytest.raises(NotAllowed, match="needs the role operator"):
        await others.at_owner(cluster.console.boxes.end, VERA, GROUP, {"chat_key": GROUP})
    assert isinstance(others, ClusterProcesses)
    for chat_key in (str(elsewhere), ""):
        tool = ToolRequest(str(GROUP), "say", {}, chat_key)
        answer = await others.calls.ask(ClusterRole.WORKER, "ada", tool, within_s=5)
        assert isinstance(answer, OperationRefused)
        assert answer.kind is RefusalKind.PARAMETERS


async def test_an_undo_that_a_worker_names_must_be_harmless_and_of_the_same_area_and_chat(
    cluster: SmallCluster,
) -> None:
    """A thief of a worker's password can answer in a worker's place, and name any action as the
    undo of a change. The operator who undoes the change has more rights than the thief."""
    others = cluster.console.cluster.others
    assert isinstance(others, ClusterProcesses)
    await cluster.gateway.store.partitions.take(partition_of(GROUP, PARTITIONS), "eve")
    named: list[UndoData] = []

    async def answer(_: ProcessRequest) -> ProcessAnswer:
        return OperationDone(True, undo=named[-1])

    async with others.calls.serve(ClusterRole.WORKER, "eve", answer):
        for action, parameters in (
            ("people.enable", {"name": "eve"}),
            ("boxes.files", {"chat_key": str(GROUP)}),
            ("chats.reset", {"chat_key": str(GROUP)}),
            ("chats.stop", {"chat_key": "web-group_coffee"}),
            ("chats.stop", {"chat_key": 3}),
            ("chats.nothing", {}),
        ):
            named.append(UndoData(action, parameters))
            assert not (await cluster.console.chats.stop(OTTO, chat_key=GROUP)).undoable
        named.append(UndoData("chats.stop", {"chat_key": str(GROUP)}))
        assert (await cluster.console.chats.stop(OTTO, chat_key=GROUP)).undoable


async def test_an_action_whose_answer_cannot_be_fetched_is_not_carried_out_again(
    cluster: SmallCluster,
) -> None:
    others = cluster.console.cluster.others
    assert isinstance(others, ClusterProcesses)
    await cluster.gateway.store.partitions.take(partition_of(GROUP, PARTITIONS), "eve")
    asked: list[bytes] = []

    async def answer(request: bytes) -> bytes:
        asked.append(request)
        return encode_message(StoredMessage(f"{OUTGOING}deleted/0"))

    async with others.calls.carriers[ClusterRole.WORKER].serve("eve", answer):
        with pytest.raises(ProcessAway, match="It may have carried this out"):
            await cluster.console.chats.stop(OTTO, chat_key=GROUP)
    assert len(asked) == 1


class FullObjects(LocalObjects):
    """An object store that takes no more objects."""

    async def put(self, name: str, source: Path) -> None:
        raise ClusterUnavailable("the bucket is full")


async def test_a_large_request_that_cannot_be_stored_was_certainly_not_carried_out(
    cluster: SmallCluster, tmp_path: Path
) -> None:
    await cluster.ada.own(GROUP)
    others = cluster.gateway.app.turns.others
    assert isinstance(others, ClusterProcesses)
    stored = others.calls
    others.calls = replace(stored, objects=FullObjects(tmp_path / "full"))
    content = base64.b64encode(b"x" * 1_000_000).decode()
    given = {"chat_key": str(GROUP), "path": "tea.bin", "content": content}
    with pytest.raises(ProcessAway) as refused:
        await cluster.console.boxes.put_file.invoke(OTTO, given)
    assert "a large request cannot be stored: the bucket is full" in str(refused.value)
    assert "Nothing was changed; try again" in str(refused.value)
    assert "may have" not in str(refused.value)
    others.calls = stored
    with pytest.raises(NoSuchItem, match="no box 'default'"):  # the worker itself was fine
        await cluster.console.boxes.put_file.invoke(OTTO, given)


async def test_the_owner_of_a_chat_begins_the_new_conversation_that_the_console_asks_for(
    cluster: SmallCluster,
) -> None:
    await cluster.ada.own(GROUP)
    note = await cluster.ada.app.message_io.inbox.note(GROUP, "A person came.")
    assert note.segments == (Text("A person came."),)
    held = await cluster.ada.app.runtime.services.boxes.open(GROUP)
    await cluster.ada.app.runtime.services.boxes.close(GROUP, held, changed=True)
    await cluster.console.chats.reset(OTTO, chat_key=GROUP)
    assert await cluster.console.boxes.of_chat(VERA, chat_key=GROUP) == []
    newest = (await cluster.console.chats.history(VERA, chat_key=GROUP))[-1]
    assert "A new conversation begins." in newest.text
    await cluster.gateway.store.messages.read_newer()
    chat = await cluster.console.chats.one(VERA, chat_key=GROUP)
    (listed_chat,) = (await cluster.console.chats.newest(VERA)).chats
    assert listed_chat == chat
    assert (chat.worker, chat.working) == ("ada", False)
    assert not (await cluster.console.chats.stop(OTTO, chat_key=GROUP)).result
