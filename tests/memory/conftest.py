"""Fixtures: a store with chats, a memory, and a model whose answers a test chooses."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import gettempdir

import pytest
from loguru import logger

from nekro_core.chat import Author, ChatKey, Record, Sender, Text
from nekro_core.memory.background import NoQuickModel
from nekro_core.memory.keeper import MemoryKeeper
from nekro_core.memory.settings import MemorySettings
from nekro_core.store import Store

GROUP = ChatKey.parse("onebot_v11-group_30003")
OTHER_GROUP = ChatKey.parse("onebot_v11-group_40004")
PRIVATE = ChatKey.parse("onebot_v11-private_10001")
LIN, MIA = Sender("10001", "Lin"), Sender("20002", "Mia")


class Clock:
    """A clock that a test sets. It is used as wall clock and as monotonic clock."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


Answer = str | Exception | Callable[[str, str], str | Awaitable[str]]


class QuickModel:
    """Gives the answers that a test has set, one after another, and then always the last one."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = [*answers]
        self.asked: list[tuple[str, str]] = []

    def require(self) -> None:
        if not self.answers:
            raise NoQuickModel("none here")

    async def ask(self, instructions: str, text: str, *, max_tokens: int) -> str:
        assert max_tokens <= 1000
        self.asked.append((instructions, text))
        self.require()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, str):
            return answer
        found = answer(instructions, text)
        return found if isinstance(found, str) else await found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> AsyncIterator[Store]:
    """Make a store on a SQLite file and, in ``make long``, also on PostgreSQL."""
    if request.param == "sqlite":
        url = f"sqlite://{tmp_path}/nekro.sqlite3"
    else:
        url = await request.getfixturevalue("postgres").database()
    async with Store.open(url, clock=clock) as opened:
        yield opened


@pytest.fixture
def model() -> QuickModel:
    return QuickModel()


@pytest.fixture
def settings() -> MemorySettings:
    return MemorySettings()


@pytest.fixture
async def memory(
    store: Store, settings: MemorySettings, model: QuickModel, clock: Clock
) -> MemoryKeeper:
    return await memory_of(store, settings, model, clock)


async def memory_of(
    store: Store,
    settings: MemorySettings,
    model: QuickModel,
    clock: Clock,
    data: Path | None = None,
) -> MemoryKeeper:
    keeper = MemoryKeeper(
        store,
        settings,
        data=data or Path(gettempdir()) / "there-are-no-documents-here",
        secret=lambda: "a secret",
        model=model,
        clock=clock,
        wall=clock,
    )
    await keeper.load()
    return keeper


async def say(
    store: Store,
    text: str,
    *,
    key: ChatKey = GROUP,
    by: Sender | None = LIN,
    time: float = 900_000.0,
    **fields: object,
) -> Record:
    """Store a message of a person, or of the bot if ``by`` is None."""
    values: dict[str, object] = {
        "seq": store.messages.reserve(),
        "chat_key": key,
        "author": Author.PERSON if by is not None else Author.BOT,
        "segments": (Text(text),),
        "time": time,
        "sender": by or Sender(""),
    }
    record = Record(**{**values, **fields})  # type: ignore[arg-type]
    known = (*store.chats.seen(key), *store.users.seen(key.instance, record.sender))
    await store.messages.add(record, unique_id=record.message_id or None, before=known)
    return record


@pytest.fixture
def caplog_loguru() -> Iterator[list[str]]:
    """The lines of the log."""
    lines: list[str] = []
    sink = logger.add(lines.append, format="{message}", level="DEBUG")
    yield lines
    logger.remove(sink)
