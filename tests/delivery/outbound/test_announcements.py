"""An operator sends a message to several chats. The tests check progress, cancelling, restarts, and
erased people."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from nekro_core.chat import ChatKey, DeliveryState, Receipt, Segments, plain_text
from nekro_core.delivery.errors import CannotDo, NothingToSend
from nekro_core.delivery.outbound.announcements import (
    MOST_CHATS,
    Announcements,
    AnnouncementState,
    AnnouncementSummary,
    InvalidAnnouncement,
)

CHATS = [ChatKey.parse(f"onebot_v11-group_{number}") for number in range(1, 6)]
FAST = 600.0


class Platform:
    """Receives messages, and answers them as a test wants."""

    def __init__(self) -> None:
        self.got: list[tuple[ChatKey, str]] = []
        self.answers: dict[ChatKey, Receipt | Exception] = {}
        self.hangs: set[ChatKey] = set()
        self.hanging = anyio.Event()
        self.slow: set[ChatKey] = set()
        """Chats whose messages the platform takes when ``released`` is set."""
        self.released = anyio.Event()

    async def send(self, chat_key: ChatKey, segments: Segments) -> tuple[Receipt, ...]:
        if chat_key in self.hangs:
            self.hanging.set()
            await anyio.sleep_forever()
        if chat_key in self.slow:
            self.hanging.set()
            await self.released.wait()
        self.got.append((chat_key, plain_text(segments)))
        answer = self.answers.get(chat_key, Receipt(state=DeliveryState.SENT, message_id="1"))
        if isinstance(answer, Exception):
            raise answer
        return (answer,)


@asynccontextmanager
async def opened(folder: Path, platform: Platform) -> AsyncIterator[Announcements]:
    async with Announcements(folder / "announcements", platform.send) as announcements:
        yield announcements


async def until(announcements: Announcements, state: AnnouncementState) -> AnnouncementSummary:
    with anyio.fail_after(20):
        while announcements.listed()[0].state is not state:
            await anyio.sleep(0.01)
    return announcements.listed()[0]


async def test_every_chat_gets_the_text_once_and_the_outcome_is_stored(
    tmp_path: Path,
) -> None:
    platform = Platform()
    refused = Receipt(state=DeliveryState.REJECTED, reason="muted")
    platform.answers |= {CHATS[1]: refused, CHATS[2]: NothingToSend("no such chat")}
    async with opened(tmp_path, platform) as announcements:
        begun = await announcements.start("closed today", [*CHATS[:3], CHATS[0]], per_minute=FAST)
        assert (begun.state, begun.chats, begun.waiting) == (AnnouncementState.RUNNING, 3, 3)
        done = await until(announcements, AnnouncementState.DONE)
    assert platform.got == [(key, "closed today") for key in CHATS[:3]]
    assert done.counts == {DeliveryState.SENT: 1, DeliveryState.REJECTED: 2}

    async with opened(tmp_path, platform) as again:
        summary, chats = again.one(begun.announcement_id)
        assert (summary.state, summary.counts) == (AnnouncementState.DONE, done.counts)
        assert [each.reason for each in chats] == ["", "muted", "no such chat"]
        with pytest.raises(CannotDo, match="nothing is left"):
            await again.resume(begun.announcement_id)
    (file,) = (tmp_path / "announcements").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_cancelled_announcement_reaches_no_further_chat_and_can_be_continued(
    tmp_path: Path,
) -> None:
    platform = Platform()
    async with opened(tmp_path, platform) as announcements:
        begun = await announcements.start("hello", CHATS, per_minute=1)
        with anyio.fail_after(20):
            while not platform.got:
                await anyio.sleep(0.01)
        cancelled = await announcements.cancel(begun.announcement_id)
        assert (cancelled.state, cancelled.waiting) == (AnnouncementState.CANCELLED, 4)
        with pytest.raises(CannotDo, match="cancelled already"):
            await announcements.cancel(begun.announcement_id)
        await announcements.resume(begun.announcement_id)
        with anyio.fail_after(20):
            while len(platform.got) < 2:
                await anyio.sleep(0.01)
    assert [key for key, _ in platform.got] == CHATS[:2]


async def test_after_a_crash_no_chat_gets_the_announcement_twice(tmp_path: Path) -> None:
    platform = Platform()
    platform.hangs.add(CHATS[1])
    async with opened(tmp_path, platform) as announcements:
        begun = await announcements.start("hello", CHATS[:3], per_minute=FAST)
        with anyio.fail_after(20):
            await platform.hanging.wait()
    (file,) = (tmp_path / "announcements").iterdir()
    file.write_text(file.read_text() + '{"chat": "onebot_v11-gro')

    platform.hangs.clear()
    async with opened(tmp_path, platform) as again:
        summary, chats = again.one(begun.announcement_id)
        assert summary.state is AnnouncementState.INTERRUPTED
        assert [each.state for each in chats] == [DeliveryState.SENT, DeliveryState.UNKNOWN, None]
        await again.resume(begun.announcement_id)
        await until(again, AnnouncementState.DONE)
    assert [key for key, _ in platform.got] == [CHATS[0], CHATS[2]]


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\n", "\r"])
async def test_a_text_with_any_line_end_is_known_after_a_restart(tmp_path: Path, end: str) -> None:
    text = f"closed today{end}open tomorrow"
    async with opened(tmp_path, Platform()) as announcements:
        await announcements.start(text, CHATS[:1], per_minute=FAST)
        await until(announcements, AnnouncementState.DONE)
    async with opened(tmp_path, Platform()) as again:
        assert again.listed()[0].text == text


async def test_a_line_that_a_crash_has_cut_off_hides_no_later_line(tmp_path: Path) -> None:
    platform = Platform()
    platform.hangs.add(CHATS[1])
    async with opened(tmp_path, platform) as announcements:
        begun = await announcements.start("关门了", CHATS[:3], per_minute=FAST)
        await platform.hanging.wait()
    (file,) = (tmp_path / "announcements").iterdir()
    whole = file.read_bytes()
    # The process was killed while it wrote the outcome for another chat, in the middle of a
    # character.
    file.write_bytes(whole + '{"chat": "onebot_v11-group_3", "reason": "关'.encode()[:-1])
    platform.hangs.clear()
    async with opened(tmp_path, platform) as announcements:
        await announcements.resume(begun.announcement_id)
        await until(announcements, AnnouncementState.DONE)
    async with opened(tmp_path, platform) as announcements:
        summary, _ = announcements.one(begun.announcement_id)
        assert (summary.state, summary.waiting) == (AnnouncementState.DONE, 0)
    assert platform.got == [(CHATS[0], "关门了"), (CHATS[2], "关门了")]


async def test_an_erased_person_is_removed_from_announcements(tmp_path: Path) -> None:
    platform, lin = Platform(), ChatKey.parse("web-private_lin")
    async with opened(tmp_path, platform) as announcements:
        await announcements.start("hello", [CHATS[0], lin], per_minute=FAST)
        await until(announcements, AnnouncementState.DONE)
        assert await announcements.forget([lin]) == 1
        assert announcements.listed()[0].chats == 1
    (file,) = (tmp_path / "announcements").iterdir()
    assert "lin" not in file.read_text()
    async with opened(tmp_path, platform) as again:
        assert again.listed()[0].state is AnnouncementState.DONE


async def test_a_file_that_cannot_be_written_does_not_keep_a_person_in_other_announcements(
    tmp_path: Path,
) -> None:
    platform, lin = Platform(), ChatKey.parse("web-private_lin")
    folder = tmp_path / "announcements"
    async with opened(tmp_path, platform) as announcements:
        begun = [
            await announcements.start("hello", [CHATS[0], lin], per_minute=FAST) for _ in range(3)
        ]
        with anyio.fail_after(20):
            while [each.state for each in announcements.listed()] != [AnnouncementState.DONE] * 3:
                await anyio.sleep(0.01)
        # The middle one cannot be written: a folder is where its new content would go.
        blocked = folder / f".{begun[1].announcement_id}.jsonl.new"
        blocked.mkdir()
        with pytest.raises(OSError, match=begun[1].announcement_id):
            await announcements.forget([lin])
        assert [each.chats for each in announcements.listed()] == [1, 1, 1]
        texts = {path.stem: path.read_text() for path in folder.glob("*.jsonl")}
        assert [name for name, text in texts.items() if "lin" in text] == [begun[1].announcement_id]
        blocked.rmdir()
        await announcements.forget([])
        assert not [path for path in folder.glob("*.jsonl") if "lin" in path.read_text()]


async def test_of_two_people_who_resume_an_announcement_at_once_one_is_refused(
    tmp_path: Path,
) -> None:
    platform, refused = Platform(), list[str]()
    async with opened(tmp_path, platform) as announcements:
        begun = await announcements.start("hello", CHATS[:3], per_minute=1)
        await announcements.cancel(begun.announcement_id)
        tried = len(platform.got)

        async def resume() -> None:
            try:
                await announcements.resume(begun.announcement_id)
            except CannotDo as error:
                refused.append(str(error))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resume)
            tasks.start_soon(resume)
        with anyio.fail_after(20):
            while len(platform.got) == tried:
                await anyio.sleep(0.01)
        await anyio.wait_all_tasks_blocked()
    assert [key for key, _ in platform.got] == CHATS[: tried + 1]
    assert refused == ["this announcement is running: nothing is left to send"]


async def test_an_announcement_that_is_cancelled_while_it_is_resumed_stays_cancelled(
    tmp_path: Path,
) -> None:
    platform = Platform()
    async with opened(tmp_path, platform) as announcements:
        begun = await announcements.start("hello", CHATS, per_minute=1)
        await announcements.cancel(begun.announcement_id)
        tried = len(platform.got)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(announcements.resume, begun.announcement_id)
            tasks.start_soon(announcements.cancel, begun.announcement_id)
        assert announcements.listed()[0].state is AnnouncementState.CANCELLED
        assert len(platform.got) == tried
    async with opened(tmp_path, platform) as again:
        assert again.listed()[0].state is AnnouncementState.CANCELLED


async def test_outcomes_that_come_while_people_are_erased_are_stored(tmp_path: Path) -> None:
    platform = Platform()
    # There are so many chats that the file takes long to write: outcomes come while it is written.
    others = [ChatKey.parse(f"web-private_{number}") for number in range(MOST_CHATS - len(CHATS))]
    async with opened(tmp_path, platform) as announcements:
        begun = await announcements.start("hello", [*CHATS, *others], per_minute=FAST)

        async def erase() -> None:
            for key in reversed(others):
                if len(platform.got) >= len(CHATS):
                    return
                await announcements.forget([key])

        with anyio.fail_after(60):
            await erase()
        await announcements.cancel(begun.announcement_id)
        _, live = announcements.one(begun.announcement_id)
    async with opened(tmp_path, platform) as again:
        _, stored = again.one(begun.announcement_id)
        assert [each.state for each in stored] == [each.state for each in live]


async def test_a_chat_that_is_erased_while_it_gets_the_text_is_not_written_again(
    tmp_path: Path,
) -> None:
    platform, lin = Platform(), ChatKey.parse("web-private_lin")
    platform.slow.add(lin)
    async with opened(tmp_path, platform) as announcements:
        await announcements.start("hello", [lin, CHATS[0]], per_minute=FAST)
        with anyio.fail_after(20):
            await platform.hanging.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(announcements.forget, [lin])
            platform.released.set()
        await until(announcements, AnnouncementState.DONE)
    (file,) = (tmp_path / "announcements").iterdir()
    assert "lin" not in file.read_text()


async def test_a_chat_is_erased_from_all_announcements_although_another_one_begins_meanwhile(
    tmp_path: Path,
) -> None:
    platform = Platform()
    async with opened(tmp_path, platform) as announcements:
        for _ in range(20):
            await announcements.start("hello", CHATS[:2], per_minute=FAST)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(announcements.forget, CHATS[:1])
            tasks.start_soon(announcements.start, "news", CHATS[1:2])
        assert [each.chats for each in announcements.listed()] == [1] * 21


async def test_impossible_announcements_are_refused_before_anything_is_sent(
    tmp_path: Path,
) -> None:
    platform = Platform()
    async with opened(tmp_path, platform) as announcements:
        for text, chats, per_minute in (
            ("  ", CHATS, FAST),
            ("x" * 4001, CHATS, FAST),
            ("x", [], FAST),
            ("x", CHATS * (MOST_CHATS // 5 + 1), FAST),
            ("x", CHATS, 0.0),
            ("x", CHATS, 10_000.0),
        ):
            with pytest.raises(InvalidAnnouncement, match="expected"):
                await announcements.start(text, chats, per_minute=per_minute)
        assert announcements.listed() == []
    assert platform.got == []
