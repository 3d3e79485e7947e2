"""Several processes use one PostgreSQL database: who may open it, who migrates it, and in which
order their records are numbered."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager

import anyio
import pytest

from nekro_core.chat import ChatKey, Record, plain_text
from nekro_core.store import (
    DatabaseInUse,
    DatabaseTooNew,
    GuardFailed,
    Person,
    SqlStatement,
    Store,
    StoreSettings,
    StoreUnavailable,
    final_seq,
)
from nekro_core.store.database import WriteGuard
from nekro_core.store.upgrade import known_migrations
from tests.faults.line import Line
from tests.peers.postgres import PostgresServer

from .conftest import GROUP, OTHER, Clock, node, record, say

pytestmark = [pytest.mark.long]

WRITE = """
import sys, anyio
from nekro_core.chat import Author, ChatKey, Record, Sender, Text
from nekro_core.store import Store, StoreSettings

async def main(url, name, count):
    async with Store.open(url, StoreSettings(node=name, busy_timeout_s=30)) as store:
        print("open", flush=True)
        async def say(number):
            key = ChatKey.parse(f"fake-group_{number % 3}")
            said = Record(seq=store.messages.reserve(), chat_key=key, author=Author.PERSON,
                          segments=(Text(f"{name} {number}"),), time=1.0, sender=Sender("1", "Lin"))
            await store.messages.add(said, unique_id=None, before=store.chats.seen(key))
        for begin in range(0, count, 5):
            async with anyio.create_task_group() as tasks:
                for number in range(begin, begin + 5):
                    tasks.start_soon(say, number)

anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""
QUICK = 0.3


@contextmanager
def writer(url: str, name: str, count: int) -> "Iterator[subprocess.Popen[str]]":
    """Start a process that opens the database under the name ``name`` and stores ``count``
    messages. It is killed when the block ends."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, url, name, str(count)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return await anyio.to_thread.run_sync(process.stdout.readline)


@pytest.fixture
async def pair(postgres_url: str, clock: Clock) -> AsyncIterator[tuple[Store, Store]]:
    """Two stores with their own connections, as two processes have them."""
    async with (
        Store.open(postgres_url, node("one"), clock=clock) as one,
        Store.open(postgres_url, node("two"), clock=clock) as two,
    ):
        yield one, two


# ---- who may open the database


async def test_a_bot_that_runs_alone_and_a_cluster_refuse_each_other(postgres_url: str) -> None:
    async with Store.open(postgres_url, node("worker-1")):
        with pytest.raises(DatabaseInUse, match="in use by nekro-core worker-1, process"):
            async with Store.open(postgres_url, StoreSettings(busy_timeout_s=QUICK)):
                pass
    async with Store.open(postgres_url):
        with pytest.raises(DatabaseInUse, match=r"nekro-core, process .* which runs alone"):
            async with Store.open(
                postgres_url, StoreSettings(node="worker-1", busy_timeout_s=QUICK)
            ):
                pass


async def test_two_processes_cannot_have_the_same_name(postgres_url: str) -> None:
    with writer(postgres_url, "worker-1", 5_000_000) as other:
        assert await first_line(other) == "open\n"
        again = StoreSettings(node="worker-1", busy_timeout_s=QUICK)
        with pytest.raises(
            DatabaseInUse, match=rf"'worker-1' is in use by .*process {other.pid} on"
        ):
            async with Store.open(postgres_url, again):
                pass
        async with Store.open(postgres_url, node("worker-2")) as store:
            await say(store)
        other.kill()
        # The server notices a moment later that the process has died.
        async with Store.open(postgres_url, node("worker-1")) as store:
            await say(store)


async def test_an_sqlite_file_cannot_be_shared(sqlite_url: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"cannot share a SQLite file.*asyncpg://"):
        async with Store.open(sqlite_url, node("worker-1")):
            pass


async def test_of_several_processes_that_open_an_empty_database_only_one_makes_the_tables(
    postgres: PostgresServer,
) -> None:
    url = await postgres.empty_database()
    async with AsyncExitStack() as stack:
        found = [stack.enter_context(writer(url, f"worker-{each}", 5)) for each in range(3)]
        for process in found:
            assert await first_line(process) == "open\n"
        for process in found:
            assert await anyio.to_thread.run_sync(process.wait) == 0
    done = await postgres.run("SELECT name FROM tortoise_migrations ORDER BY 1", url=url)
    assert [row[0] for row in done] == known_migrations()
    (row,) = await postgres.run("SELECT COUNT(*) AS number FROM messages", url=url)
    assert row["number"] == 15


# ---- versions side by side


async def migrated_by(postgres: PostgresServer, url: str, name: str) -> None:
    """Let the database say that a newer version has applied this migration."""
    row = f"('store', '{name}', now())"
    applied = f"INSERT INTO tortoise_migrations (app, name, applied_at) VALUES {row}"
    await postgres.run(applied, url=url)


async def newer(postgres: PostgresServer, url: str, name: str) -> None:
    """Let the database have a migration of a newer version, which adds a column and a table."""
    await postgres.run("ALTER TABLE messages ADD COLUMN mood TEXT NOT NULL DEFAULT ''", url=url)
    await postgres.run("CREATE TABLE moods (mood TEXT)", url=url)
    await migrated_by(postgres, url, name)


async def test_a_process_works_with_a_newer_migration_that_says_it_only_adds(
    postgres: PostgresServer, postgres_url: str
) -> None:
    async with Store.open(postgres_url, node("one")) as running:
        await newer(postgres, postgres_url, "9998_moods_compatible")
        await say(running, "it goes on")
        async with Store.open(postgres_url, node("two")) as started:
            await say(started, "and may start again")
            texts = [plain_text(each.segments) for each in await running.messages.newest(GROUP, 9)]
            assert texts == ["it goes on", "and may start again"]
    with pytest.raises(DatabaseTooNew):
        async with Store.open(postgres_url):
            pass  # A bot that runs alone is upgraded as a whole.


async def test_a_process_works_with_several_newer_migrations_if_each_says_that_it_only_adds(
    postgres: PostgresServer, postgres_url: str
) -> None:
    async with Store.open(postgres_url, node("one")) as running:
        for name in ("9996_a_compatible", "9997_b_compatible", "9998_c_compatible"):
            await migrated_by(postgres, postgres_url, name)
        async with Store.open(postgres_url, node("two")) as started:
            await say(started, "it starts beside the newer version")
            (line,) = await running.messages.newest(GROUP, 9)
            assert plain_text(line.segments) == "it starts beside the newer version"
        await migrated_by(postgres, postgres_url, "9999_d")
        with pytest.raises(DatabaseTooNew, match=r"it has 9999_d, this version"):
            async with Store.open(postgres_url, node("two")):
                pass
    with pytest.raises(DatabaseTooNew, match=r"9996_a_compatible, .*, 9999_d"):
        async with Store.open(postgres_url):
            pass


async def test_a_newer_migration_that_does_not_say_so_is_refused(
    postgres: PostgresServer, postgres_url: str
) -> None:
    await newer(postgres, postgres_url, "9999_moods")
    with pytest.raises(DatabaseTooNew, match="9999_moods"):
        async with Store.open(postgres_url, node("one")):
            pass


async def test_the_tables_are_not_migrated_while_a_process_of_the_version_before_runs(
    postgres: PostgresServer, postgres_url: str
) -> None:
    newest, later = "0020_shared_files", "0021_takes_and_plugins_compatible"
    assert known_migrations()[-2:] == [newest, later], "this test takes these migrations back"
    quick = StoreSettings(node="two", busy_timeout_s=QUICK)
    async with Store.open(postgres_url, node("one")):
        delete = f"DELETE FROM tortoise_migrations WHERE name >= '{newest}'"
        await postgres.run(delete, url=postgres_url)
        tables = "media_files, box_files, item_takes, commit_marks, shared_plugins, plugin_reports"
        await postgres.run(f"DROP TABLE {tables}", url=postgres_url)
        await postgres.run("ALTER TABLE partition_owners DROP COLUMN token", url=postgres_url)
        with pytest.raises(DatabaseInUse, match=rf"{newest}, and nekro-core one, .* End all"):
            async with Store.open(postgres_url, quick):
                pass
    async with Store.open(postgres_url, quick) as store:
        await store.partitions.prepare(1)


# ---- numbers of records


async def test_a_reader_that_follows_the_numbers_misses_no_record(postgres_url: str) -> None:
    count, workers = 150, 3
    seen: list[Record] = []
    async with Store.open(postgres_url, node("reader")) as store, AsyncExitStack() as stack:
        processes = [
            stack.enter_context(writer(postgres_url, f"worker-{each}", count))
            for each in range(workers)
        ]
        with anyio.fail_after(60):
            while len(seen) < count * workers:
                after = seen[-1].seq if seen else 0
                seen += await store.messages.after(None, after, 50)
                # The next read begins after the highest number so far. A record that got a lower
                # number, but is committed only now, would never be read.
                assert all(process.poll() in (None, 0) for process in processes)
                await anyio.sleep(0.002)
    said = sorted(plain_text(each.segments) for each in seen)
    assert said == sorted(f"worker-{w} {n}" for w in range(workers) for n in range(count))
    assert len({each.seq for each in seen}) == count * workers
    by_worker = [
        [plain_text(r.segments) for r in seen if f"worker-{w} " in plain_text(r.segments)]
        for w in range(workers)
    ]
    assert all(by_worker)


async def test_the_records_of_two_processes_are_numbered_in_the_order_of_their_commits(
    pair: tuple[Store, Store],
) -> None:
    one, two = pair
    said = [await say(store, f"{number}") for number in range(5) for store in (one, two)]
    numbers = [each.seq for each in said]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) == 10
    assert all(number > 0 for number in numbers)
    for store in pair:
        found = await store.messages.newest(GROUP, 20)
        assert [each.seq for each in found] == numbers
        assert await store.messages.newest_seq() == numbers[-1]


async def test_a_record_has_its_number_when_others_are_told_of_it(
    pair: tuple[Store, Store],
) -> None:
    one, _ = pair
    told: list[Record] = []
    said = record(one)
    assert said.seq < 0, "it is a placeholder until the commit"
    await one.messages.add(said, unique_id=None, stored=told.append)
    (stored,) = await one.messages.newest(GROUP, 1)
    assert told == [stored]
    assert stored.seq == final_seq(said.seq) > 0
    assert await one.messages.get(said.seq) == stored, "a read takes the placeholder too"


async def test_a_write_may_contain_the_placeholder_of_a_record_that_is_committed(
    pair: tuple[Store, Store],
) -> None:
    one, _ = pair
    said = record(one)
    await one.messages.add(said, unique_id=None, before=one.chats.seen(GROUP))
    await one.chats.mark_handled(GROUP, said.seq)
    rows = await one.erasing._database.read(
        "SELECT handled_seq FROM chats WHERE chat_key = ?", str(GROUP)
    )
    assert rows[0]["handled_seq"] == final_seq(said.seq)


async def test_numbers_go_on_when_a_cluster_follows_a_single_bot_and_the_reverse(
    postgres_url: str,
) -> None:
    last = 0
    for settings in (StoreSettings(), node("one"), StoreSettings(), node("two")):
        async with Store.open(postgres_url, settings) as store:
            said = await say(store)
            assert said.seq > last
            last = said.seq


# ---- conditions of writes


async def test_a_guard_that_fails_refuses_its_write_and_no_other(url: str, clock: Clock) -> None:
    """Writes that share a commit with a refused write are stored."""
    async with Store.open(url, clock=clock) as store:
        database = store.plugin_data._database
        await store.plugin_data.set("p", "old", store_key="k")

        def put(key: str, value: str) -> SqlStatement:
            return SqlStatement(
                "INSERT INTO plugin_data (plugin, chat_key, user_key, store_key, value) "
                "VALUES ('p', '', '', ?, ?)",
                (key, value),
            )

        def expects(value: str) -> WriteGuard:
            return WriteGuard(
                SqlStatement(
                    "UPDATE plugin_data SET value = 'new' WHERE store_key = 'k' AND value = ? "
                    "RETURNING id",
                    (value,),
                )
            )

        failures: list[str] = []
        before = database.write(put("a", "1"))
        refused = database.write(
            put("b", "2"), guards=[expects("wrong")], failed=lambda: failures.append("b")
        )
        taken = database.write(put("c", "3"), guards=[expects("old")])
        after = database.write(put("d", "4"))
        await before
        with pytest.raises(GuardFailed):
            await refused
        assert await taken == [[]]
        await after
        assert failures == ["b"]
        found = {key: await store.plugin_data.get("p", store_key=key) for key in "abcdk"}
        assert found == {"a": "1", "b": None, "c": "3", "d": "4", "k": "new"}


async def test_rows_are_counted_once_although_two_processes_count(
    pair: tuple[Store, Store], clock: Clock
) -> None:
    one, two = pair
    for number in range(30):
        await say(one if number % 2 else two, f"{number}")
    for _ in range(3):
        async with anyio.create_task_group() as tasks:
            for store in pair:
                tasks.start_soon(store.statistics_counter.count_slice)
    members = await one.chat_list.members(GROUP)
    assert [each.messages for each in members] == [30]


async def test_counts_that_another_process_made_do_not_bring_an_erased_person_back(
    postgres: PostgresServer, postgres_url: str, clock: Clock
) -> None:
    """A process has read the person's messages and stops before it stores the counts. Meanwhile the
    person is erased. Then the process goes on."""
    async with (
        Line(postgres.port) as line,
        Store.open(
            re.sub(r":\d+/", f":{line.port}/", postgres_url), node("slow"), clock=clock
        ) as slow,
        Store.open(postgres_url, node("other"), clock=clock) as other,
    ):
        await other.accounts.bind("onebot_v11", "bot")
        said = [await say(other, f"{number}") for number in range(3)]
        while await slow.statistics_counter.count_slice():
            pass  # The first slice that is counted also makes the row that counts erasures.
        said.append(await say(other, "one more"))
        person = Person(adapter="onebot_v11", user_id="10001", instances=(GROUP.instance,))
        async with anyio.create_task_group() as tasks:
            line.freezes_before = b"COMMIT;"
            tasks.start_soon(slow.statistics_counter.count_slice)
            with anyio.fail_after(20):
                while not line.frozen:
                    await anyio.sleep(0.01)
                await other.erasing.erase(person, await other.erasing.look(person))
            line.thaw()
        rows = await postgres.run(
            "SELECT dimension FROM statistics WHERE member = '10001' OR name LIKE '%10001'",
            url=postgres_url,
        )
        assert rows == []


async def test_both_processes_bind_one_account_to_one_instance(
    postgres_url: str, clock: Clock
) -> None:
    """Both processes have read the accounts before one of them binds this account."""
    async with (
        Store.open(postgres_url, node("one"), clock=clock) as one,
        Store.open(postgres_url, node("two"), clock=clock) as two,
    ):
        names: list[str] = []

        async def bind(store: Store) -> None:
            names.append(await store.accounts.bind("fake", "bot"))

        async with anyio.create_task_group() as tasks:
            for store in (one, two):
                tasks.start_soon(bind, store)
        assert names == ["fake", "fake"]
        assert await say(two, key=ChatKey.parse("fake-group_1"))
        assert one.accounts.own("fake") == two.accounts.own("fake") == {"bot"}
        assert await say(one, key=OTHER)


async def test_a_process_finds_a_chat_whose_records_another_one_has_stored(
    pair: tuple[Store, Store],
) -> None:
    one, two = pair
    assert await two.chat_list.one(GROUP) is None
    await say(one, "hello")
    found = await two.chat_list.one(GROUP)
    assert found is not None
    assert found.newest is not None
    assert plain_text(found.newest.segments) == "hello"


async def test_a_process_learns_which_chats_have_records_that_another_process_has_stored(
    postgres_url: str,
) -> None:
    async with (
        Store.open(postgres_url, node("gateway")) as gateway,
        Store.open(postgres_url, node("worker")) as worker,
    ):
        await gateway.messages.read_newer()
        await say(worker, "hello")
        await gateway.messages.read_newer()
        assert [*await gateway.messages.newest_seqs()] == [GROUP]
        await say(worker, "far away", key=OTHER)
        await say(worker, "hello to you")
        await gateway.messages.read_newer()
        known = await gateway.messages.newest_seqs()
        assert [*known] == [OTHER, GROUP]
        assert known[GROUP] == await worker.messages.newest_seq()
        (newest,) = (await gateway.chat_list.page(limit=1)).chats
        assert newest.newest is not None
        assert plain_text(newest.newest.segments) == "hello to you"
