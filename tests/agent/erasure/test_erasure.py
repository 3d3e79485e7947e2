"""What erasing a person deletes, in which order, and what it leaves to the operator."""

import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from loguru import logger

from nekro_core.agent.erasure.erasure import Eraser, ErasureReport, PersonErasure
from nekro_core.agent.erasure.marks import ErasureMarks
from nekro_core.chat import ChatKey, File, Image, Media, Text
from nekro_core.chat.redact import RedactionTarget
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.policy import InvalidOverride
from nekro_core.policy.settings import TriggerSettings
from nekro_core.sandbox.box import SandboxError
from nekro_core.store import Person, PersonTraces, StoreUnavailable
from nekro_core.timers import TimerService
from tests.agent.bot import GROUP, Bot, answer, running_bot
from tests.agent.conftest import BoxCache
from tests.agent.pictures import png

USER = "4044044"
PRIVATE = ChatKey.parse(f"fake-private_{USER}")
IN_GROUPS = TriggerSettings(debounce_s=0, private=False)
"""With these settings private messages start no turn, so that a test knows which rows exist."""


@dataclass
class Forgetting:
    """A `PersonErasure`, and a log of the callbacks that it called."""

    bot: Bot
    erasing: PersonErasure
    timers: TimerService
    done: list[tuple[str, object]] = field(default_factory=list)
    plugins: tuple[int, list[str]] = (0, [])

    @property
    def person(self) -> Person:
        return self.erasing.person(GROUP, USER)

    async def erase(self) -> ErasureReport:
        async def stop(chat_key: ChatKey) -> None:
            self.done.append(("stop", chat_key))

        async def plugins() -> tuple[int, list[str]]:
            self.done.append(("plugins", await self.bot.store.erasing.look(self.person)))
            return self.plugins

        return await self.erasing.erase(
            self.person,
            stop=stop,
            drop=lambda chat_key, user_id: self.done.append((f"drop {user_id}", chat_key)),
            plugins=plugins,
        )

    async def picture(self, chat_key: ChatKey, data: bytes = b"") -> Media:
        return await self.bot.plugins.services.media.keep_bytes(
            chat_key, data or png(), name="a.png"
        )


class StuckMedia:
    """A media store whose files cannot be deleted."""

    async def forget(self, chat_key: ChatKey, path: str) -> bool:
        raise OSError(16, "Device or resource busy", path)

    async def forget_chat(self, chat_key: ChatKey) -> None:
        raise OSError(16, "Device or resource busy", chat_key.file_name)


@asynccontextmanager
async def forgetting(
    folder: Path,
    cache: BoxCache,
    model: Any = None,
    *,
    media: Any = None,
    erasers: Iterable[Eraser] = (),
    **services: Any,
) -> AsyncIterator[Forgetting]:
    async with (
        running_bot(folder, cache, model or ScriptedModel([]), trigger=IN_GROUPS) as bot,
        TimerService.open(bot.store, bot.journal, wall=time.time) as timers,
    ):
        known = {"boxes": bot.services.boxes, "timers": timers} | services
        erasing = PersonErasure(
            bot.store,
            ErasureMarks(folder / "marks.json", lambda: "secret", time.time),
            outbox=bot.outbox.admin,
            media=media or bot.media,
            data=folder,
            erasers=tuple(erasers),
            **known,
        )
        yield Forgetting(bot, erasing, timers)


async def test_a_person_is_looked_up_under_every_account_of_the_platform(
    folder: Path, boxes: BoxCache
) -> None:
    async with forgetting(folder, boxes) as forget:
        second = await forget.bot.store.accounts.bind("fake", "second")
        await forget.bot.store.accounts.bind("pigeon", "bot")
        assert second != "fake"
        for chat in (GROUP, ChatKey.parse(f"{second}-group_1")):
            assert forget.erasing.person(chat, USER) == Person(
                adapter="fake", user_id=USER, instances=tuple(sorted(["fake", second]))
            )
        assert forget.erasing.person(ChatKey.parse("web-private_lin"), "lin") == Person(
            adapter="web", user_id="lin", instances=("web",)
        )


async def test_turns_stop_first_and_plugins_are_called_after_the_rows_are_erased(
    folder: Path, boxes: BoxCache
) -> None:
    async with forgetting(folder, boxes) as forget:
        bot = forget.bot
        for chat in (GROUP, PRIVATE):
            await bot.say("vermilion", chat, user=USER, time=1_000.0)
        done = await forget.erase()
        assert forget.done == [
            ("stop", PRIVATE),
            (f"drop {USER}", PRIVATE),
            ("stop", GROUP),
            (f"drop {USER}", GROUP),
            ("plugins", PersonTraces()),
        ]
        assert (done.messages, done.chats, done.turns, done.left) == (2, 2, 0, ())
        assert forget.erasing.marks.was_erased("fake", USER, 1_000.0)
        assert not forget.erasing.marks.was_erased("fake", "lin", 1_000.0)


async def test_the_report_counts_all_that_was_erased(folder: Path, boxes: BoxCache) -> None:
    async def touched(person: Person, traces: PersonTraces, forgotten: RedactionTarget) -> int:
        seen.append((person, traces, forgotten))
        return 5

    seen: list[tuple[Person, PersonTraces, RedactionTarget]] = []
    model = ScriptedModel([answer("yes")])
    async with forgetting(folder, boxes, model, erasers=[touched, touched]) as forget:
        bot, forget.plugins = forget.bot, (3, ["a plugin failed"])
        shared = [await forget.picture(GROUP), await forget.picture(GROUP, png(9, 9))]
        alone = await forget.picture(PRIVATE)
        for medium in shared:
            await bot.say("", GROUP, user=USER, segments=(Image(medium),), message_id=medium.sha256)
        await bot.say("", PRIVATE, user=USER, segments=(File(alone),), message_id="m2")
        await bot.say(f"hello {USER}", GROUP)
        await bot.ask("are you there?", GROUP, user=USER, to_bot=True)
        traces = await bot.store.erasing.look(forget.person)
        assert await forget.erase() == ErasureReport(
            messages=4,
            turns=1,
            files=3,
            chats=2,
            boxes=2,
            others=1,
            elsewhere=13,
            left=("a plugin failed",),
        )
        for medium in (*shared, alone):
            assert not Path(medium.path).exists()
        person, told, forgotten = seen[0]
        assert (person, told, len(seen)) == (forget.person, traces, 2)
        assert forgotten.ids == {*person.ids, str(PRIVATE)}
        assert (
            forgotten.message_ids
            == traces.message_ids
            >= {"m2", *(medium.sha256 for medium in shared)}
        )


async def test_a_file_that_others_use_stays(folder: Path, boxes: BoxCache) -> None:
    async with forgetting(folder, boxes) as forget:
        theirs, both = await forget.picture(GROUP), await forget.picture(GROUP, png(9, 9))
        await forget.bot.say("", GROUP, user=USER, segments=(Image(theirs), Image(both)))
        await forget.bot.say("", GROUP, user="mei", segments=(Image(both),))
        assert (await forget.erase()).files == 1
        assert (Path(theirs.path).exists(), Path(both.path).exists()) == (False, True)


async def test_all_files_of_the_persons_private_chat_are_deleted(
    folder: Path, boxes: BoxCache
) -> None:
    async with forgetting(folder, boxes) as forget:
        await forget.bot.say("hello", PRIVATE, user=USER)
        stray = await forget.picture(PRIVATE)
        other = await forget.picture(GROUP)
        await forget.erase()
        assert (Path(stray.path).exists(), Path(other.path).exists()) == (False, True)


async def test_pending_deliveries_to_the_person_are_dropped(folder: Path, boxes: BoxCache) -> None:
    async with forgetting(folder, boxes) as forget:
        await forget.bot.say("hello", PRIVATE, user=USER)
        forget.bot.adapter.offline = True
        await forget.bot.outbox.send(PRIVATE, (Text("vermilion"),))
        await forget.bot.outbox.send(GROUP, (Text("ochre"),))
        await forget.erase()
        (waits,) = await forget.bot.outbox.admin.listed()
        assert waits.segments == (Text("ochre"),)
        forget.bot.adapter.offline = False
        forget.bot.outbox.retry_now()
        with anyio.fail_after(30):
            while await forget.bot.outbox.admin.listed():
                await anyio.sleep(0.005)
        assert forget.bot.adapter.said(PRIVATE) == []


async def test_a_delivery_that_cannot_be_dropped_does_not_stop_the_erasure(
    folder: Path, boxes: BoxCache
) -> None:
    async with forgetting(folder, boxes) as forget:
        await forget.bot.say("hello", PRIVATE, user=USER)
        traces = PersonTraces(private=(PRIVATE,), waiting=("no-such-delivery",))
        await forget.erasing._let_go(traces, RedactionTarget(forget.person.ids))


async def test_the_persons_timers_are_deleted_and_other_timers_no_longer_name_them(
    folder: Path, boxes: BoxCache
) -> None:
    async with forgetting(folder, boxes) as forget:
        await forget.bot.say("hello", PRIVATE, user=USER)
        due = time.time() + 500
        await forget.timers.set_once(PRIVATE, due, "vermilion")
        await forget.timers.set_once(GROUP, due, f"remind {USER} of the turquoise")
        await forget.erase()
        assert forget.timers.of_chat(PRIVATE) == []
        (kept,) = forget.timers.of_chat(GROUP)
        assert kept.text == "remind [erased] of the turquoise"
    async with forgetting(folder, boxes, timers=None) as forget:
        await forget.erase()


async def test_boxes_with_runs_or_files_of_the_person_are_destroyed(
    folder: Path, boxes: BoxCache
) -> None:
    other, third = ChatKey.parse("fake-group_4"), ChatKey.parse("fake-group_5")
    model = ScriptedModel([answer("yes"), answer("yes")])
    async with forgetting(folder, boxes, model) as forget:
        bot = forget.bot
        await bot.ask("are you there?", GROUP, user=USER, to_bot=True)
        await bot.ask("and here?", third, user="mei", to_bot=True)
        await bot.say("hello", third, user=USER)
        await bot.say("", other, user=USER, segments=(Image(await forget.picture(other)),))
        copies = {chat: folder / "plugin_files" / chat.file_name for chat in (GROUP, other, third)}
        for path in copies.values():
            path.mkdir(parents=True)
            (path / "a.txt").write_text("figures")
        assert (await forget.erase()).boxes == 2
        assert [path.exists() for path in copies.values()] == [False, False, True]
        running = {used.owner for used in bot.services.boxes.named.running}
        assert running == {str(third)}


# ---- what the operator must do by hand


async def test_a_failing_step_is_reported_and_the_other_steps_are_done(
    folder: Path, boxes: BoxCache
) -> None:
    errors = [
        OSError(13, "Permission denied", "/x"),
        StoreUnavailable("locked"),
        InvalidOverride("no"),
    ]

    async def fails(*_: object) -> int:
        raise errors.pop(0)

    async def works(*_: object) -> int:
        return 7

    class StuckBoxes:
        async def destroy(self, chat_key: ChatKey) -> None:
            raise SandboxError(f"{chat_key.kind} is busy")

    lines: list[str] = []
    sink = logger.add(lines.append, level="WARNING", format="{message}")
    erasers, media = [fails, fails, works, fails], StuckMedia()
    try:
        async with forgetting(
            folder, boxes, media=media, erasers=erasers, boxes=StuckBoxes()
        ) as forget:
            forget.plugins = (2, ["a plugin failed"])
            medium = await forget.picture(PRIVATE)
            await forget.bot.say("", PRIVATE, user=USER, segments=(Image(medium),))
            done = await forget.erase()
    finally:
        logger.remove(sink)
    assert done.left == (
        f"{medium.path}: Device or resource busy",
        f"{PRIVATE.file_name}: Device or resource busy",
        f"boxes of {PRIVATE}: private is busy",
        "[Errno 13] Permission denied: '/x'",
        "locked",
        "no",
        "a plugin failed",
    )
    assert (done.files, done.elsewhere, done.messages) == (0, 9, 1)
    told = [line for line in lines if "left to do by hand" in line]
    assert len(told) == len(done.left)


@pytest.mark.parametrize("folder_name", ["plugin_data", "existing_plugins"])
async def test_a_plugins_file_that_names_the_person_is_reported(
    folder: Path, boxes: BoxCache, folder_name: str
) -> None:
    async with forgetting(folder, boxes) as forget:
        where = folder / folder_name / "one"
        where.mkdir(parents=True)
        (where / "a.json").write_text(f'{{"{USER}": 1}}')
        (where / f"{USER}.txt").write_text("nothing")
        (where / "b.json").write_text("40440 44")
        (where / f"d-{USER}").mkdir()
        (folder / "other").mkdir()
        (folder / "other" / f"{USER}.txt").write_text(USER)
        assert (await forget.erase()).left == (
            f"{where / f'{USER}.txt'}: a plugin's own file names the id",
            f"{where / 'a.json'}: a plugin's own file names the id",
        )
        short = replace(forget.person, user_id="4044")
        (where / "b.json").write_text("4044")
        assert forget.erasing._look_into_files(short) == [], (
            "an id of four digits could be part of any number"
        )
        five = replace(forget.person, user_id="40440")
        assert len(forget.erasing._look_into_files(five)) == 2


async def test_only_files_up_to_64_megabytes_are_searched_for_the_id(
    folder: Path, boxes: BoxCache
) -> None:
    async with forgetting(folder, boxes) as forget:
        where = folder / "plugin_data"
        where.mkdir()
        for name, size in (("a", 64 * 2**20), ("b", 64 * 2**20 + 1)):
            with (where / name).open("wb") as file:
                file.truncate(size)
                file.write(USER.encode())
        assert (await forget.erase()).left == (f"{where / 'a'}: a plugin's own file names the id",)


async def test_an_unreadable_file_is_reported(
    folder: Path, boxes: BoxCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    async with forgetting(folder, boxes) as forget:
        (folder / "plugin_data").mkdir()
        (folder / "plugin_data" / "a").write_text("x")
        # root can read any file, so the file's mode cannot be used here.
        monkeypatch.setattr(Path, "read_bytes", locked)
        (told,) = forget.erasing._look_into_files(forget.person)
        assert told == f"{folder / 'plugin_data' / 'a'}: cannot be read: Permission denied"


# ---- files of dropped messages, and the end of an erasure


async def test_files_of_a_dropped_message_are_deleted_unless_others_use_them(
    folder: Path, boxes: BoxCache
) -> None:
    async with forgetting(folder, boxes) as forget:
        alone, both = await forget.picture(GROUP), await forget.picture(GROUP, png(9, 9))
        record = await forget.bot.say("", GROUP, segments=(Image(alone), Image(both)))
        await forget.bot.store.erasing.forget_record(record.seq)
        await forget.bot.say("", GROUP, user="mei", segments=(Image(both),))
        await forget.erasing.forget_files(record)
        assert (Path(alone.path).exists(), Path(both.path).exists()) == (False, True)


async def test_a_file_that_cannot_be_deleted_is_logged_and_the_next_is_deleted(
    folder: Path, boxes: BoxCache
) -> None:
    class HalfStuck(StuckMedia):
        gone: list[str] = []  # noqa: RUF012

        async def forget(self, chat_key: ChatKey, path: str) -> bool:
            if self.gone:
                self.gone.append(path)
                return True
            self.gone.append("")
            return await super().forget(chat_key, path)

    lines: list[str] = []
    sink = logger.add(lines.append, level="ERROR", format="{message}")
    media = HalfStuck()
    async with forgetting(folder, boxes, media=media) as forget:
        first, second = await forget.picture(GROUP), await forget.picture(GROUP, png(9, 9))
        record = await forget.bot.say("", GROUP, segments=(Image(first), Image(second)))
        await forget.bot.store.erasing.forget_record(record.seq)
        await forget.erasing.forget_files(record)
    logger.remove(sink)
    assert media.gone == ["", second.path]
    assert any("a file stays" in line for line in lines)


async def test_the_command_and_its_answer_are_erased_last(folder: Path, boxes: BoxCache) -> None:
    async with forgetting(folder, boxes) as forget:
        bot = forget.bot
        await forget.erase()
        command = await bot.say(f"please forget {USER}", GROUP, user="boss")
        kept = await bot.say("ochre", GROUP, user="boss")
        await bot.say("vermilion", GROUP, user=USER)
        await forget.erasing.finish(forget.person, command.seq)
        assert [line.seq for line in await bot.store.messages.newest(GROUP, 10)] == [kept.seq]
        log = folder / "nekro.sqlite3-wal"
        assert log.stat().st_size == 0, "the write-ahead log must be empty too"
