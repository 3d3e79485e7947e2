"""The page of the log reads the newest lines of another process again and again, and shows those
that are new."""

from nekro_core.console.pages.logs import newer_lines
from nekro_core.system.logs.line import LogLine
from nekro_core.system.logs.ring import LogRing

LIMIT = 4


def line(number: int, time: float) -> LogLine:
    return LogLine(
        number=number, time=time, level="INFO", severity=20, logger="a", text=f"{number} at {time}"
    )


class Reader:
    """A page that reads the lines of a process."""

    def __init__(self) -> None:
        self.read_before: set[tuple[int, float]] = set()

    def reads(self, ring: LogRing) -> list[str]:
        """Read the newest lines, and return the texts of the new ones."""
        found = ring.newest(limit=LIMIT)
        newer = newer_lines(found, self.read_before)
        self.read_before = {(each.number, each.time) for each in found}
        return [each.text for each in newer]


def test_each_line_is_shown_once_and_in_order() -> None:
    ring, page = LogRing(), Reader()
    ring.add(line(1, 1.0))
    ring.add(line(2, 1.0))
    assert page.reads(ring) == ["1 at 1.0", "2 at 1.0"]
    assert page.reads(ring) == []
    ring.add(line(3, 2.0))
    assert page.reads(ring) == ["3 at 2.0"]


def test_lines_after_a_restart_are_shown_although_their_numbers_are_lower() -> None:
    before, page = LogRing(), Reader()
    for number in range(1, 100):
        before.add(line(number, 5.0))
    assert len(page.reads(before)) == LIMIT
    after = LogRing()
    after.add(line(1, 9.0))
    assert page.reads(after) == ["1 at 9.0"]
    after.add(line(2, 9.5))
    assert page.reads(after) == ["2 at 9.5"]


def test_a_line_with_the_number_of_an_earlier_one_is_shown_after_a_restart() -> None:
    before, page = LogRing(), Reader()
    before.add(line(1, 5.0))
    page.reads(before)
    after = LogRing()
    after.add(line(1, 9.0))
    assert page.reads(after) == ["1 at 9.0"]


def test_lines_are_not_shown_again_after_the_newest_ones_were_erased() -> None:
    ring, page = LogRing(), Reader()
    for number in range(1, 9):
        ring.add(line(number, 1.0))
    assert page.reads(ring) == [f"{number} at 1.0" for number in (5, 6, 7, 8)]
    ring.forget(lambda each: each.number in (7, 8))
    assert page.reads(ring) == [], "3 and 4 are older than what was shown"
