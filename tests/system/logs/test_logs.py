"""The log is kept in memory and in files. It can be searched and followed, and its size is
limited."""

import json
import stat
import threading
import time
from pathlib import Path

import anyio
import pytest
from loguru import logger

from nekro_core.app.logs import LiveLog, RedactingStream
from nekro_core.system.logs.book import LogBook
from nekro_core.system.logs.files import RotatedLogFiles
from nekro_core.system.logs.line import LogFilter, LogLine
from nekro_core.system.logs.ring import LogRing, MissedLines
from nekro_core.system.logs.settings import LogSettings


def line(number: int, text: str = "hello", **more: object) -> LogLine:
    fields: dict[str, object] = {"level": "INFO", "severity": 20, "logger": "nekro_core"}
    return LogLine(number=number, time=1.0, text=text, **(fields | more))  # type: ignore[arg-type]


LINES = [
    line(1, chat_key="web-private_a", turn_id=7),
    line(2, "Grüße", chat_key="web-private_b"),
    line(3, plugin="local/weather", severity=40, level="ERROR", traceback="ValueError: x"),
]


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (LogFilter(), [3, 2, 1]),
        (LogFilter(chat_key="web-private_a"), [1]),
        (LogFilter(turn_id=7), [1]),
        (LogFilter(plugin="local/weather"), [3]),
        (LogFilter(severity=30), [3]),
        (LogFilter(text="GRÜSSE"), [2]),
        (LogFilter(text="valueerror"), [3]),
        (LogFilter(text="nothing"), []),
    ],
)
def test_lines_are_searched_newest_first(wanted: LogFilter, numbers: list[int]) -> None:
    ring = LogRing()
    for each in LINES:
        ring.add(each)
    assert [each.number for each in ring.newest(wanted)] == numbers
    assert [each.number for each in ring.newest(before=3, limit=1)] == [2]


def test_the_log_in_memory_is_limited_by_lines_and_by_bytes() -> None:
    ring = LogRing(lines=10)
    for number in range(100):
        ring.add(line(number))
    assert [each.number for each in ring.newest()] == [*range(99, 89, -1)]
    ring = LogRing(size=10_000)
    for number in range(100):
        ring.add(line(number, "x" * 1000))
    assert len(ring.newest()) == 6


async def test_a_follower_gets_new_lines_from_any_thread() -> None:
    ring = LogRing()
    async with ring.follow(LogFilter(severity=40)) as lines:
        threading.Thread(target=lambda: [ring.add(each) for each in LINES]).start()
        with anyio.fail_after(30):
            assert await anext(lines) == LINES[2]
    assert ring.follower_count == 0
    ring.add(LINES[0])


async def test_a_slow_follower_is_told_how_many_lines_it_missed() -> None:
    ring = LogRing()
    async with ring.follow(queue=3) as lines:
        for number in range(1, 11):
            ring.add(line(number))
        seen = [await anext(lines) for _ in range(4)]
        assert [each.number for each in seen[:3] if isinstance(each, LogLine)] == [1, 2, 3]
        assert seen[3] == MissedLines(7)
        ring.add(line(11))
        assert await anext(lines) == line(11)


async def test_files_are_private_and_are_rotated_and_downloaded_oldest_first(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "logs"
    files = RotatedLogFiles(folder, size=2000, files=3)
    for number in range(100):
        files.write(line(number, "x" * 50))
    paths = files.paths()
    assert [path.name for path in paths] == ["bot.2.log", "bot.1.log", "bot.log"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    assert all(path.stat().st_size <= 2000 for path in paths)
    content = b"".join([piece async for piece in LogBook(LogRing(), files).download()])
    numbers = [json.loads(each)["number"] for each in content.splitlines()]
    assert numbers == [*range(numbers[0], 100)]

    # The next process of the bot appends to the newest file.
    again = RotatedLogFiles(folder, size=2000, files=3)
    again.write(line(100))
    assert json.loads(paths[-1].read_bytes().splitlines()[-1])["number"] == 100


async def test_log_files_above_a_lowered_number_of_files_are_cleaned_and_then_deleted(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "logs"
    before = RotatedLogFiles(folder, size=1000, files=4)
    for number in range(100):
        before.write(line(number, "said by 1717077" if number % 2 else "said by others"))
    oldest_first = ["bot.3.log", "bot.2.log", "bot.1.log", "bot.log"]
    assert [path.name for path in before.paths()] == oldest_first

    files = RotatedLogFiles(folder, size=1000, files=2)
    book = LogBook(LogRing(), files)
    assert await book.forget({"1717077"}) > 0
    assert [path.name for path in files.paths()] == oldest_first
    assert b"1717077" not in b"".join(path.read_bytes() for path in folder.iterdir())
    content = b"".join([piece async for piece in book.download()])
    assert content == b"".join((folder / name).read_bytes() for name in oldest_first)
    for number in range(10):
        files.write(line(number, "x" * 100))
    assert [path.name for path in folder.iterdir() if path not in files.paths()] == []
    assert [path.name for path in files.paths()] == ["bot.1.log", "bot.log"]


def test_a_single_file_begins_anew_when_it_is_full(tmp_path: Path) -> None:
    files = RotatedLogFiles(tmp_path / "logs", size=1000, files=1)
    for number in range(100):
        files.write(line(number, "x" * 50))
    (path,) = files.paths()
    assert path.stat().st_size <= 1000
    assert json.loads(path.read_bytes().splitlines()[-1])["number"] == 99


def test_writing_is_tried_again_some_time_after_the_disk_refused_a_line(tmp_path: Path) -> None:
    now = 0.0
    blocked = tmp_path / "logs"
    blocked.write_text("a file where the folder should be")
    files = RotatedLogFiles(blocked, clock=lambda: now)
    files.write(line(1))
    blocked.unlink()
    files.write(line(2))
    assert files.paths() == []
    now = 60.0
    files.write(line(3))
    (path,) = files.paths()
    assert json.loads(path.read_bytes())["number"] == 3


async def test_lines_about_a_person_are_removed_everywhere(tmp_path: Path) -> None:
    ring, files = LogRing(), RotatedLogFiles(tmp_path / "logs", size=1000)
    book = LogBook(ring, files)
    for number in range(20):
        text = "said by 1717077" if number % 2 else "said by others"
        for keep in (ring.add, files.write):
            keep(line(number, text))
    assert await book.forget({"1717077", ""}) == 10
    files.write(line(20))
    content = b"".join([piece async for piece in book.download()])
    assert b"1717077" not in content
    assert content.count(b"said by others") == 10
    assert not [each for each in ring.newest() if "1717077" in each.text]
    assert await book.forget(()) == 0


class Out:
    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


def test_a_logged_line_has_its_chat_and_turn_and_no_secrets(tmp_path: Path) -> None:
    out = Out()
    redactor = RedactingStream(out)  # type: ignore[arg-type]
    redactor.add_secrets(["a-secret-token"])
    logger.remove()
    live = LiveLog(redactor, tmp_path / "logs", "")
    turn = 0
    try:
        with logger.contextualize(chat_key="web-private_a", turn=lambda: turn):
            logger.info("before the turn")
            turn = 9
            try:
                int("a-secret-token")
            except ValueError:
                logger.exception("it has a-secret-token")
        logger.debug("not at this level")
        failed, before = live.book.newest()
        assert (before.chat_key, before.turn_id, before.traceback) == ("web-private_a", 0, "")
        assert (failed.turn_id, failed.level, failed.text) == (9, "ERROR", "it has ***")
        assert failed.traceback.startswith("Traceback")
        assert failed.traceback.endswith("literal for int() with base 10: '***'")
        assert abs(failed.time - time.time()) < 60
        assert "a-secret-token" not in out.text
        assert b"a-secret-token" not in (tmp_path / "logs" / "bot.log").read_bytes()

        live.book.set_level("debug")
        logger.debug("now")
        assert live.book.newest(limit=1)[0].text == "now"
        assert "now" in out.text
        with pytest.raises(ValueError, match=r"LOUD.*expected a number or one of"):
            live.book.set_level("LOUD")
        assert live.book.level == "debug"
        live.book.set_level("ERROR")
        logger.info("too low")
        assert live.book.newest(limit=1)[0].text == "now"
    finally:
        logger.remove()


def test_the_log_is_printed_as_json_lines_with_chat_and_turn_and_without_secrets(
    tmp_path: Path,
) -> None:
    out = Out()
    redactor = RedactingStream(out)  # type: ignore[arg-type]
    redactor.add_secrets(["a-secret-token"])
    logger.remove()
    live = LiveLog(redactor, tmp_path / "logs", "", LogSettings(format="json"))
    try:
        with logger.contextualize(chat_key="web-private_a", turn=9):
            logger.warning("two\nlines with a-secret-token")
        logger.info("second")
        live.book.set_level("ERROR")
        logger.info("too low")
    finally:
        logger.remove()
    first, second = map(json.loads, out.text.splitlines())
    assert (first["chat_key"], first["turn_id"], first["level"]) == ("web-private_a", 9, "WARNING")
    assert first["text"] == "two\nlines with ***"
    assert (second["text"], second["turn_id"]) == ("second", 0)
    assert out.text == (tmp_path / "logs" / "bot.log").read_text()


def test_the_settings_limit_the_size_and_the_number_of_log_files(tmp_path: Path) -> None:
    logger.remove()
    redactor = RedactingStream(Out())  # type: ignore[arg-type]
    LiveLog(redactor, tmp_path, "", LogSettings(file_mb=1, files=2))
    try:
        for _ in range(3 * 70):
            logger.info("x" * 15_000)
    finally:
        logger.remove()
    sizes = {each.name: each.stat().st_size for each in tmp_path.iterdir()}
    assert sizes.keys() == {"bot.log", "bot.1.log"}
    assert max(sizes.values()) <= 1024 * 1024
