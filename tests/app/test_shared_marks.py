"""A person who was erased in one process counts as erased in all processes that share the
database."""

import anyio
import pytest

from nekro_core.agent.erasure.marks import ErasureMarks
from nekro_core.app.shared_marks import SharedMarks
from nekro_core.store import ChangeTopic, Store, StoreSettings
from tests.peers.postgres import PostgresServer


def marks(now: float) -> ErasureMarks:
    return ErasureMarks(None, lambda: "the same secret", lambda: now)


async def test_marks_of_two_processes_are_merged() -> None:
    one, two = marks(100.0), marks(200.0)
    one.add("fake", "lin")
    two.add("fake", "mei")
    async with Store.open("sqlite://:memory:") as store:
        await SharedMarks(one, store.documents).publish()
        await SharedMarks(two, store.documents).publish()
        await SharedMarks(one, store.documents).take_over()
    for each in (one, two):
        assert each.was_erased("fake", "lin", 99.0)
        assert each.was_erased("fake", "mei", 199.0)
        assert not each.was_erased("fake", "lin", 101.0), "written after the erasure"


async def test_marks_that_are_stored_at_once_are_all_kept() -> None:
    found = [marks(100.0) for _ in range(4)]
    async with Store.open("sqlite://:memory:") as store:
        async with anyio.create_task_group() as tasks:
            for number, each in enumerate(found):
                each.add("fake", f"person {number}")
                tasks.start_soon(SharedMarks(each, store.documents).publish)
        fresh = marks(300.0)
        await SharedMarks(fresh, store.documents).take_over()
    assert all(fresh.was_erased("fake", f"person {number}", 99.0) for number in range(4))


@pytest.mark.long
async def test_another_process_is_told_of_an_erasure(postgres: PostgresServer) -> None:
    url = await postgres.database()
    async with (
        Store.open(url, StoreSettings(node="one")) as first,
        Store.open(url, StoreSettings(node="two")) as second,
    ):
        one, two = marks(100.0), marks(200.0)
        shared = SharedMarks(two, second.documents)
        second.changes.listen(ChangeTopic.DOCUMENTS, shared.take_over)
        with anyio.fail_after(20):
            while not second.changes.live:
                await anyio.sleep(0.01)
            one.add("fake", "lin")
            await SharedMarks(one, first.documents).publish()
            while not two.was_erased("fake", "lin", 99.0):
                await anyio.sleep(0.01)
