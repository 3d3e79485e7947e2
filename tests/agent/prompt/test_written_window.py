"""A prompt for which the lines of the previous prompt were used again is the same as a prompt that
was written anew."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.agent.prompt.line_marks import MarkedRecords, window_marks
from nekro_core.agent.prompt.view import PromptView
from nekro_core.agent.prompt.window import HistoryWindows
from nekro_core.agent.prompt.written_window import WrittenWindow, WrittenWindows
from nekro_core.agent.settings import PromptSettings
from nekro_core.agent.turn.history_window import in_window
from nekro_core.chat import Author, ChatKey, Mention, Record, Reply, Segments, Sender, Text
from nekro_core.llm.model import ModelProfile
from nekro_core.store import Store

KEY = ChatKey.parse("fake-group_1")
LIN, MEI = Sender("u1", "Lin"), Sender("u2", "Mei")

SAID = st.tuples(
    st.sampled_from([LIN, MEI, Sender("u3", "Lin"), Sender("u4", "")]),
    st.sampled_from([0.0, 30.0, 200.0, 90_000.0]),
    st.sampled_from(["", "mention", "reply"]),
    st.booleans(),
)


def person(seq: int, sender: Sender = LIN, **more: object) -> Record:
    fields: dict[str, object] = {
        "author": Author.PERSON,
        "segments": (Text(f"line {seq}"),),
        "time": float(seq),
        "message_id": f"m{seq}",
    }
    return Record(seq=seq, chat_key=KEY, sender=sender, **{**fields, **more})  # type: ignore[arg-type]


def bot(seq: int, run_id: str, **more: object) -> Record:
    return person(seq, Sender("me"), author=Author.BOT, run_id=run_id, **more)


@given(
    said=st.lists(SAID, min_size=1, max_size=80),
    ends=st.lists(st.integers(1, 80), max_size=6),
    begin=st.integers(0, 4),
)
def test_marks_are_the_same_whether_only_new_records_or_all_records_are_marked(
    said: list[tuple[Sender, float, str, bool]], ends: list[int], begin: int
) -> None:
    records: list[Record] = []
    now = 0.0
    for seq, (sender, later, kind, own) in enumerate(said, 1):
        now += later
        extra: Mapping[str, Segments] = {
            "mention": (Mention("u9", "Kai"),),
            "reply": (Reply(f"m{seq // 2}"),),
        }
        segments = (*extra.get(kind, ()), Text("hi"))
        author = Author.BOT if own else Author.PERSON
        records.append(person(seq, sender, segments=segments, time=now, author=author))
    marked = MarkedRecords(UTC, {"me"})
    for end in [*sorted(ends), len(records)]:
        shown = records[begin * (end > 40) : end]
        marked = marked.next(shown)
        assert marked.numbers == window_marks(shown, zone=UTC, own={"me"})


def test_a_changed_record_is_marked_and_written_anew() -> None:
    records = [person(seq) for seq in range(1, 41)]
    marked = MarkedRecords(UTC, ()).next(records)
    records[3] = msgspec.structs.replace(records[3], sender=MEI)
    assert marked.next(records).numbers == window_marks(records, zone=UTC, own=())


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with Store.open("sqlite://:memory:") as opened:
        yield opened


class Prompts:
    """Writes the views of successive prompts of a chat, once with the lines of the previous prompt,
    and once anew. Both must be the same."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._windows, self._written = HistoryWindows(), WrittenWindows()

    async def view(self, records: list[Record], **more: object) -> PromptView:
        window = PromptView(
            **{
                "chat_key": KEY,
                "records": records,
                "unanswered": {records[-1].seq},
                "run_ids": (),
                "steps": (),
                "own_accounts": {"me"},
                "now": 0.0,
                "zone": UTC,
                "pictures": {},
                **more,
            }  # type: ignore[arg-type]
        )
        before = self._windows.of(KEY)
        found = await self._write(window, self._windows, self._written)
        anew = HistoryWindows()
        anew.note(KEY, before)
        assert found == await self._write(window, anew, WrittenWindows())
        return found

    async def _write(
        self, window: PromptView, windows: HistoryWindows, written: WrittenWindows
    ) -> PromptView:
        return await in_window(
            window,
            runs=self._store.runs,
            windows=windows,
            written=written,
            settings=PromptSettings(history_tokens=2000),
            profile=ModelProfile(name="m"),
        )


@pytest.fixture
def prompts(store: Store) -> Prompts:
    return Prompts(store)


async def _ran(store: Store, run_id: str, code: str, *, turn_id: int) -> None:
    await store.runs.begin(run_id, KEY, code=code, turn_id=turn_id)
    await store.runs.end(run_id, output="", stop="finished", seconds=0.1)


async def test_a_long_conversation_is_written_as_if_each_prompt_were_the_first(
    store: Store, prompts: Prompts
) -> None:
    records: list[Record] = []
    for number in range(1, 120):
        seq = number * 3
        if number % 7 == 0:
            # Each seventh message of a person is recalled.
            records[-2] = msgspec.structs.replace(records[-2], recalled=True)
        records.append(person(seq, (LIN, MEI)[number % 2]))
        view = await prompts.view(records)
        assert [*view.written] == [each.seq for each in records]
        await _ran(store, f"r{number}", f"x = {number}", turn_id=number)
        records.append(bot(seq + 1, f"r{number}"))
        records = [each for each in records if each.seq >= view.records[0].seq]
    assert len(records) < 200, "the window has moved"
    assert view.ran[records[-3].seq] == "[ran] your code:\n> x = 118"


async def test_lines_written_for_other_accounts_of_the_bot_are_not_used_again(
    prompts: Prompts,
) -> None:
    records = [person(1, segments=(Mention("me", "Nekro"), Text("hi"))), person(2)]
    first = await prompts.view(records)
    second = await prompts.view(records, own_accounts={"other"})
    assert first.written[1] != second.written[1]


async def test_the_runs_of_a_turn_that_goes_on_are_read_again(
    store: Store, prompts: Prompts
) -> None:
    """A restart interrupted the turn, which has sent a message already. Its second run begins after
    the first prompt of the resumed turn."""
    await _ran(store, "a", "x = 1", turn_id=1)
    records = [person(1), bot(2, "a")]
    first = await prompts.view(records, unanswered={1})
    assert first.ran == {2: "[ran] your code:\n> x = 1"}
    await _ran(store, "b", "y = 2", turn_id=1)
    records.append(bot(3, "b"))
    second = await prompts.view(records, unanswered={1})
    assert second.ran[2].endswith("> y = 2")


def test_the_lines_of_a_chat_are_forgotten_after_prompts_of_forty_other_chats() -> None:
    windows = WrittenWindows()
    line = replace(windows.of(KEY, UTC, ()), lines={})
    windows.note(KEY, line)
    assert windows.of(KEY, UTC, ()) is line
    for number in range(40):
        other = WrittenWindow(zone=UTC, own=frozenset(), marked=MarkedRecords(UTC, ()))
        windows.note(ChatKey.parse(f"fake-group_x{number}"), other)
    assert windows.of(KEY, UTC, ()) is not line
