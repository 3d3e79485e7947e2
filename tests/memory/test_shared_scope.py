"""Several processes on one database follow the same rules of the memory: whom the bot must not
remember, which chats share their notes, and which records were read already."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import anyio
import pytest

from nekro_core.chat import ChatKey
from nekro_core.memory.keeper import MemoryKeeper
from nekro_core.memory.settings import MemorySettings
from nekro_core.store import Person, Store, StoreSettings
from tests.memory.conftest import LIN, Clock, QuickModel, memory_of, say
from tests.peers.postgres import PostgresServer

pytestmark = [pytest.mark.long]

GROUP = ChatKey.parse("fake-group_1")
PRIVATE = ChatKey.parse(f"fake-private_{LIN.user_id}")


@dataclass(frozen=True, slots=True)
class Process:
    """What one of the processes has: the database and its memory."""

    store: Store
    memory: MemoryKeeper


@pytest.fixture
async def pair(postgres: PostgresServer, clock: Clock) -> AsyncIterator[tuple[Process, Process]]:
    url = await postgres.database()
    one, two = StoreSettings(node="one"), StoreSettings(node="two")
    async with (
        Store.open(url, one, clock=clock) as first,
        Store.open(url, two, clock=clock) as second,
    ):
        await first.accounts.bind("fake", "bot")
        processes = [
            Process(store, await memory_of(store, MemorySettings(), QuickModel(), clock))
            for store in (first, second)
        ]
        await until(lambda: first.changes.live and second.changes.live)
        await until(lambda: second.accounts.instances("fake") == {"bot": "fake"})
        yield processes[0], processes[1]


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not condition():
            await anyio.sleep(0.01)


async def test_nothing_is_remembered_of_a_person_who_asked_another_process(
    pair: tuple[Process, Process],
) -> None:
    one, two = (each.memory for each in pair)
    await one.switch_off(GROUP, LIN.user_id)
    await until(lambda: two.scope.is_off(GROUP, LIN.user_id))
    await two.scope.set_off(GROUP, LIN.user_id, off=False)
    await until(lambda: not one.scope.is_off(GROUP, LIN.user_id))


async def test_a_link_and_the_progress_of_two_processes_are_both_kept(
    pair: tuple[Process, Process],
) -> None:
    """One process draws notes, and the other links the chat. Neither may write back an old value of
    the other's column, even if it has not heard of the other's change yet."""
    one, two = (each.memory for each in pair)
    await one.scope.drawn(GROUP, 20)
    await two.scope.link([GROUP, PRIVATE], "friends")
    await one.scope.drawn(GROUP, 30)
    await two.scope.drawn(GROUP, 25)
    for scope in (one.scope, two.scope):
        await until(lambda scope=scope: scope.drawn_through(GROUP) == 30)  # type: ignore[misc]
        await until(lambda scope=scope: PRIVATE in scope.readable(GROUP))  # type: ignore[misc]
    for each in pair:
        stored = await each.store.memory_chats.all()
        assert (stored[GROUP].drawn_through, stored[GROUP].link) == (30, "friends")


async def test_the_link_of_an_erased_private_chat_is_forgotten_by_all(
    pair: tuple[Process, Process],
) -> None:
    one, two = pair
    await say(one.store, "a secret", key=PRIVATE)
    await one.memory.scope.link([GROUP, PRIVATE], "friends")
    await until(lambda: PRIVATE in two.memory.scope.readable(GROUP))
    person = Person(adapter="fake", user_id=LIN.user_id, instances=("fake",))
    await one.store.erasing.erase(person, await one.store.erasing.look(person))
    await until(lambda: PRIVATE not in two.memory.scope.readable(GROUP))
