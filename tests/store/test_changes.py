"""A process that shares its database notices what other processes have changed."""

from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import pytest

from nekro_core.chat import ChatKey
from nekro_core.store import ChangeTopic, Person, Store
from tests.peers.postgres import PostgresServer

from .conftest import GROUP, Clock, node, record

pytestmark = [pytest.mark.long]

FAKE = ChatKey.parse("fake-group_1")
LISTENERS = (
    "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' OR query = 'SELECT 1' "
    "AND application_name LIKE 'nekro-core two,%'"
)


@pytest.fixture
async def pair(postgres_url: str, clock: Clock) -> AsyncIterator[tuple[Store, Store]]:
    async with (
        Store.open(postgres_url, node("one"), clock=clock) as one,
        Store.open(postgres_url, node("two"), clock=clock) as two,
    ):
        await until(lambda: one.changes.live and two.changes.live)
        yield one, two


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not condition():
            await anyio.sleep(0.01)


async def until_is(read: Callable[[], Awaitable[object]], expected: object) -> None:
    with anyio.fail_after(20):
        while await read() != expected:
            await anyio.sleep(0.01)


async def name_chat(store: Store, key: ChatKey, name: str) -> None:
    said = record(store, key=key)
    await store.messages.add(said, unique_id=None, before=store.chats.seen(key, name))


async def test_another_process_learns_of_new_accounts_and_of_names_of_chats(
    pair: tuple[Store, Store],
) -> None:
    one, two = pair
    await one.accounts.bind("fake", "bot")
    await until(lambda: two.accounts.instances("fake") == {"bot": "fake"})
    await name_chat(one, FAKE, "Tea")
    await until(lambda: two.chats.name(FAKE) == "Tea")
    await two.accounts.assign("fake", "second", "fake")
    await until(lambda: one.accounts.own("fake") == {"second"})


async def test_documents_are_listed_from_memory_until_one_changes(
    postgres: PostgresServer, postgres_url: str, pair: tuple[Store, Store]
) -> None:
    one, two = pair
    told: list[str] = []

    async def follower(name: str) -> None:
        told.append(name)

    two.changes.listen(ChangeTopic.DOCUMENTS, follower)
    first = await one.documents.write("conduct.toml", "a = 1\n", expected=None)
    await until(lambda: "conduct.toml" in told)
    assert await two.documents.listed("*") == {"conduct.toml": first}
    # This change of the database is not announced to the processes. The second process still lists
    # the old name, so its list comes from memory.
    await postgres.run("UPDATE documents SET name = 'other.toml'", url=postgres_url)
    assert await two.documents.listed("*") == {"conduct.toml": first}
    added = await one.documents.write("settings.toml", "", expected=None)
    await until_is(lambda: two.documents.listed("*"), {"other.toml": first, "settings.toml": added})


async def test_everything_is_read_again_after_the_connection_was_lost(
    postgres: PostgresServer, postgres_url: str, pair: tuple[Store, Store]
) -> None:
    """While no connection listens, a process is not told of changes. When it listens again, it must
    read everything again."""
    one, two = pair
    told: list[str] = []

    async def follower(name: str) -> None:
        told.append(name)

    two.changes.listen(ChangeTopic.ACCOUNTS, follower)
    ended = await postgres.run(
        f"SELECT pg_terminate_backend(pid) FROM ({LISTENERS}) AS listening", url=postgres_url
    )
    assert ended, "no connection listened"
    await until(lambda: not two.changes.live)
    await postgres.run(
        "INSERT INTO accounts (adapter, account, instance, bound) VALUES ('fake', 'b', 'fake', 1)",
        url=postgres_url,
    )
    await until(lambda: two.changes.live)
    await until(lambda: two.accounts.instances("fake") == {"b": "fake"})
    assert told == [""], "the empty name says that anything may have changed"
    await one.accounts.bind("fake", "c")
    await until(lambda: len(told) == 2)


async def test_an_erased_person_is_stored_again_when_they_write_again(
    pair: tuple[Store, Store],
) -> None:
    """Each process remembers which people and chats are stored already. When one process erases a
    person, the other processes must forget that the person is stored."""
    one, two = pair
    await one.accounts.bind("fake", "bot")
    sender = record(two).sender
    key = ChatKey.parse(f"fake-private_{sender.user_id}")
    said = record(two, key=key)
    before = (*two.chats.seen(key), *two.users.seen(key.instance, sender))
    await two.messages.add(said, unique_id=None, before=before)
    assert two.chats.seen(key) == two.users.seen(key.instance, sender) == ()
    person = Person(adapter="fake", user_id=sender.user_id, instances=("fake",))
    await one.erasing.erase(person, await one.erasing.look(person))
    await until(lambda: bool(two.chats.seen(key)))
    assert two.users.seen(key.instance, sender)


async def test_a_bot_that_runs_alone_listens_to_nobody(url: str) -> None:
    async with Store.open(url) as store:
        await store.accounts.bind("fake", "bot")
        await name_chat(store, GROUP, "Tea")
        await store.documents.write("conduct.toml", "", expected=None)
        assert not store.changes.live
