"""Operators read and follow the log, and change its level."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nekro_core.operator.audit import AuditLog
from nekro_core.operator.errors import InvalidParameters, NotAllowed
from nekro_core.operator.logs import Logs
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.store import Store
from nekro_core.system.logs.book import LogBook
from nekro_core.system.logs.files import RotatedLogFiles
from nekro_core.system.logs.line import LogFilter
from nekro_core.system.logs.ring import LogRing
from tests.operator.test_actions import OPERATOR, VIEWER
from tests.system.logs.test_logs import LINES, line

TOKEN = Actor(
    name="script",
    role=AccessRole.OWNER,
    origin=RequestOrigin.API,
    scopes=frozenset({"chats:read"}),
)


def levels(level: str) -> None:
    if level not in ("INFO", "DEBUG"):
        raise ValueError(f"it is {level!r}, expected INFO or DEBUG")


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Logs, LogRing]]:
    ring, files = LogRing(), RotatedLogFiles(folder / "logs")
    for each in LINES:
        ring.add(each)
        files.write(each)
    async with Store.open(f"sqlite://{folder}/nekro.sqlite3") as store:
        yield Logs(AuditLog(store.audit), LogBook(ring, files, change_level=levels)), ring


async def test_a_viewer_searches_follows_and_downloads_the_log(tmp_path: Path) -> None:
    async with opened(tmp_path) as (logs, ring):
        assert [each.number for each in await logs.newest(VIEWER, turn_id=7)] == [1]
        assert [each.number for each in await logs.newest(VIEWER, before=3, limit=1)] == [2]
        with pytest.raises(InvalidParameters, match="limit"):
            await logs.newest(VIEWER, limit=100_000)
        async with logs.follow(VIEWER, LogFilter(text="new")) as lines:
            ring.add(line(4))
            ring.add(line(5, "something new"))
            assert await anext(lines) == line(5, "something new")
        content = b"".join([piece async for piece in logs.download(VIEWER)])
        assert content.count(b"\n") == 3


async def test_a_token_without_the_scope_reads_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as (logs, _):
        with pytest.raises(NotAllowed):
            await logs.newest(TOKEN)
        with pytest.raises(NotAllowed, match="logs:read"):
            logs.follow(TOKEN)
        with pytest.raises(NotAllowed, match="logs:read"):
            logs.download(TOKEN)


async def test_operators_change_the_level_and_can_undo_the_change(tmp_path: Path) -> None:
    async with opened(tmp_path) as (logs, _):
        with pytest.raises(NotAllowed):
            await logs.set_level(VIEWER, level="DEBUG")
        with pytest.raises(InvalidParameters, match="expected INFO or DEBUG"):
            await logs.set_level(OPERATOR, level="LOUD")
        done = await logs.set_level(OPERATOR, level="DEBUG")
        assert done.undoable
        assert await logs.level(VIEWER) == "DEBUG"
