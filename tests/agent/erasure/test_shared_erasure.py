"""If several processes share a database, an erasure reaches what only one of them has: its turns,
log, files and the timers of its chats."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.agent.erasure.erasure import ErasureReport, PersonErasure
from nekro_core.agent.erasure.marks import ErasureMarks
from nekro_core.agent.erasure.shared_erasure import EraseHere, SharedErasure
from nekro_core.chat import Author, ChatKey, Record, Sender, Text
from nekro_core.chat.redact import RedactionTarget
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.inbound.inbox import ChatJournal, Inbox
from nekro_core.delivery.media.store import MediaStore
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.media.converter import MediaConverter
from nekro_core.store import Person, PersonTraces, Store, StoreSettings, StoreUnavailable
from nekro_core.system.background_tasks import background_tasks
from nekro_core.timers import TimerService
from tests.peers.postgres import PostgresServer

pytestmark = [pytest.mark.long]

USER = "4044044"
GROUP = ChatKey.parse("fake-group_3")
PRIVATE = ChatKey.parse(f"fake-private_{USER}")
LIN = Person(adapter="fake", user_id=USER, instances=("fake",))


@dataclass
class Process:
    """One of the processes: it erases people, and notes what it did and what it found stored."""

    store: Store
    timers: TimerService
    erasing: PersonErasure
    done: list[tuple[str, object]] = field(default_factory=list)

    async def stop(self, chat_key: ChatKey) -> None:
        rows = await self.store.messages.newest(chat_key, 10)
        self.done.append(("stop", (chat_key, len(rows))))

    def drop(self, chat_key: ChatKey, user_id: str) -> None:
        self.done.append(("drop", (chat_key, user_id)))

    async def destroy(self, chat_key: ChatKey) -> None:
        self.done.append(("boxes", chat_key))

    async def from_own_log(
        self, _person: Person, traces: PersonTraces, _forgotten: RedactionTarget
    ) -> int:
        self.done.append(("log", traces.names))
        return 1

    async def erase(self) -> ErasureReport:
        async def plugins() -> tuple[int, list[str]]:
            return 0, []

        return await self.erasing.erase(LIN, stop=self.stop, drop=self.drop, plugins=plugins)

    async def here(self, person: Person) -> list[str]:
        return await self.erasing.erase_here(person, stop=self.stop, drop=self.drop)


@asynccontextmanager
async def process(
    url: str,
    name: str,
    folder: Path,
    *,
    chats: Callable[[ChatKey], bool],
    here: EraseHere | None = None,
    answer_s: float = 20.0,
) -> AsyncIterator[Process]:
    """Start what a process named ``name`` needs to erase people. Without ``here`` it erases them as
    the bot does."""
    folder.mkdir()
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        store = await enter(Store.open(url, StoreSettings(node=name)))
        activity = Broadcast()
        media = await enter(MediaStore(folder, converter=await enter(MediaConverter())))
        outbox = await enter(Outbox(store, {}, activity, media=media))
        journal = ChatJournal(store, Inbox(store, activity))
        timers = await enter(TimerService.open(store, journal, wall=time.time, chats=chats))
        of_boxes: Any = (made := Process(store, timers, erasing=None))  # type: ignore[arg-type]
        made.erasing = PersonErasure(
            store,
            ErasureMarks(folder / "erased.json", lambda: "secret", time.time),
            outbox=outbox.admin,
            boxes=of_boxes,
            timers=timers,
            media=media,
            data=folder,
            erasers=(made.from_own_log,),
        )
        shared = SharedErasure(store, here or made.here, answer_s=answer_s)
        made.erasing.elsewhere = shared.erase_elsewhere
        tasks = await enter(background_tasks())
        tasks.start_soon(shared.live)
        with anyio.fail_after(20):
            while not store.changes.live:
                await anyio.sleep(0.01)
        yield made


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    return await postgres.database()


async def say(store: Store, key: ChatKey) -> None:
    sender = Sender(USER, "Lin")
    record = Record(
        seq=store.messages.reserve(),
        chat_key=key,
        author=Author.PERSON,
        segments=(Text("vermilion"),),
        time=1_000.0,
        sender=sender,
    )
    before = (*store.chats.seen(key), *store.users.seen("fake", sender))
    await store.messages.add(record, unique_id=None, before=before)


async def test_another_process_ends_its_turns_and_clears_its_log_before_rows_are_deleted(
    url: str, tmp_path: Path
) -> None:
    async with (
        process(url, "one", tmp_path / "1", chats=lambda _: True) as one,
        process(url, "two", tmp_path / "2", chats=lambda _: False) as two,
    ):
        await one.store.accounts.bind("fake", "bot")
        for key in (GROUP, PRIVATE):
            await say(one.store, key)
        copies = tmp_path / "2" / "plugin_files" / PRIVATE.file_name
        copies.mkdir(parents=True)
        report = await one.erase()
        assert (report.messages, report.left) == (2, ())
        # When the second process did its part, the rows were still there.
        assert two.done == [
            ("stop", (PRIVATE, 1)),
            ("drop", (PRIVATE, USER)),
            ("stop", (GROUP, 1)),
            ("drop", (GROUP, USER)),
            ("log", ("Lin",)),
        ]
        assert not copies.exists()
        assert two.erasing.marks.was_erased("fake", USER, 1_000.0)
        assert [each for each, _ in one.done].count("log") == 1, "its own call is not for itself"


async def test_timers_of_chats_of_another_process_are_deleted_and_no_longer_name_the_person(
    url: str, tmp_path: Path
) -> None:
    async with (
        process(url, "one", tmp_path / "1", chats=lambda _: False) as one,
        process(url, "two", tmp_path / "2", chats=lambda _: True) as two,
    ):
        await one.store.accounts.bind("fake", "bot")
        await say(two.store, PRIVATE)
        due = time.time() + 500
        await two.timers.set_once(PRIVATE, due, "vermilion")
        await two.timers.set_once(GROUP, due, f"remind {USER} of the turquoise")
        assert one.timers.all() == []
        await one.erase()
        with anyio.fail_after(20):
            while [row.text for row in two.timers.all()] != ["remind [erased] of the turquoise"]:
                await anyio.sleep(0.01)
        stored = await one.store.timers.all()
        assert [row.text for row in stored] == ["remind [erased] of the turquoise"]


async def test_the_report_says_what_other_processes_left_and_how_many_did_not_answer(
    url: str, tmp_path: Path
) -> None:
    async def fails(_: Person) -> Sequence[str]:
        raise StoreUnavailable("the disk is full")

    async def leaves(_: Person) -> Sequence[str]:
        return ["a.txt: a plugin's own file names the id", *["x" * 1_000] * 30]

    one = process(url, "one", tmp_path / "1", chats=lambda _: True, answer_s=5.0)
    async with (
        one as asking,
        process(url, "two", tmp_path / "2", chats=lambda _: False, here=fails),
        process(url, "three", tmp_path / "3", chats=lambda _: False, here=leaves),
    ):
        await asking.store.accounts.bind("fake", "bot")
        await say(asking.store, GROUP)
        report = await asking.erase()
        assert report.messages == 1
        assert report.left[0] == "a.txt: a plugin's own file names the id"
        assert len(report.left) == 11
        assert max(len(each) for each in report.left[:-1]) == 300
        assert report.left[-1].startswith("1 of 2 other processes have not answered within 5 s")


async def test_without_other_processes_an_erasure_asks_nobody(url: str, tmp_path: Path) -> None:
    async with process(url, "one", tmp_path / "1", chats=lambda _: True) as one:
        await one.store.accounts.bind("fake", "bot")
        await say(one.store, GROUP)
        report = await one.erase()
        assert (report.messages, report.left) == (1, ())
