"""Strangers who connect to the port cannot fill the operator's log."""

import logging
from collections.abc import Iterator

import pytest

from nekro_core.app.logs import VisitorLogThrottle
from tests.sandbox.preview.world import says, world


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.levelname, record.getMessage()))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(clock: Clock) -> Iterator[Kept]:
    """The web server's log, throttled as `nekro_core.app.logs.configure_logging` throttles it."""
    server, kept, seldom = logging.getLogger("uvicorn.error"), Kept(), VisitorLogThrottle(clock)
    server.addHandler(kept)
    server.addFilter(seldom)
    before = server.level
    yield kept
    server.setLevel(before)
    server.removeHandler(kept)
    server.removeFilter(seldom)


KNOCK = "GET / HTTP/1.1\r\nHost: {}\r\n{}\r\n"
UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


async def test_preview_visitors_and_boxes_do_not_fill_the_log(log: Kept, clock: Clock) -> None:
    async with world() as here:
        # The start of the web server has changed the logger: it gave it other handlers and another
        # level. In a bot, `configure_logging` sets the level to WARNING.
        server = logging.getLogger("uvicorn.error")
        server.setLevel(logging.WARNING)
        server.addHandler(log)
        name = here.name()

        async def knock() -> None:
            for request in (
                "no http at all\r\n\r\n",
                KNOCK.format(name, "Connection: Upgrade\r\nUpgrade: h2c\r\n"),
                KNOCK.format(name, UPGRADE),  # no server listens
                KNOCK.format(f"{'a' * 32}.preview.localhost", UPGRADE),
            ):
                await here.ask(request)
            cut = says("HTTP/1.1 200 OK\nContent-Length: 50", b"cut")
            async with here.box.serving(8000, cut):
                await here.ask(KNOCK.format(name, "Connection: close\r\n"))

        for _ in range(20):
            await knock()
        first = list(log.lines)
        assert {level for level, _ in first} == {"WARNING"}
        assert 3 <= len(first) <= 4
        assert len({text for _, text in first}) == len(first)
        clock.now += 61
        await knock()
        later = [text for _, text in log.lines[len(first) :]]
        assert len(later) == len(first)
        assert any("(and 19 more since the last such line)" in text for text in later)


def test_other_log_lines_are_not_throttled(log: Kept) -> None:
    server = logging.getLogger("uvicorn.error")
    server.setLevel(logging.WARNING)
    for _ in range(3):
        server.error("Exception in ASGI application\n")
    assert log.lines == [("ERROR", "Exception in ASGI application\n")] * 3
