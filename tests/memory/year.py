"""Simulates a year of a group of 12 people in minutes, and checks that the memory stays within its
limits.

Run it with ``make year``. The people and the models follow a script with a seed, so two runs are
equal. The clock is simulated: the messages are spread over a year, with nights, so conversations
pause. The bot takes part in some of them. The store is a real SQLite file, which is closed and
opened again several times.
"""

import argparse
import gc
import json
import os
import random
import re
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from loguru import logger

from nekro_core.chat import Author, ChatKey, Record, Sender, Text
from nekro_core.llm.tokens import estimate_tokens
from nekro_core.memory.keeper import MemoryKeeper, ShownMemory
from nekro_core.memory.notes.book import MAX_NOTES
from nekro_core.memory.settings import MemorySettings
from nekro_core.store import RECORDS_LEVEL, SUMMARIES_LEVEL, Store

GROUP = ChatKey.parse("onebot_v11-group_30003")
PEOPLE = [
    Sender(str(10_001 + n), name)
    for n, name in enumerate(
        ("Lin", "Mia", "Otto", "小林", "美咲", "Ada", "Bo", "Cem", "Dana", "Eve", "健太", "王芳")
    )
]
TOPICS = {
    "en": (
        "tea",
        "dogs",
        "trains",
        "chess",
        "bread",
        "rain",
        "films",
        "the garden",
        "a new bicycle",
    ),
    "zh": ("绿茶", "小狗", "火车", "围棋", "面包", "电影", "花园", "自行车"),
    "ja": ("緑茶", "犬", "電車", "将棋", "パン", "映画", "庭", "自転車"),
}
SENTENCES = {
    "en": (
        "I like {}",
        "I do not like {} any more",
        "tomorrow I will look after {}",
        "{}? again?",
        "has anybody seen {}",
        "I moved and now I have {} nearby",
        "we decided on {} for Friday",
    ),
    "zh": ("我喜欢{}", "我不再喜欢{}了", "明天我去看{}", "谁见过{}？", "我们决定周五去看{}"),
    "ja": (
        "{}が好きです",
        "{}はもう好きではありません",
        "明日{}を見に行きます",
        "金曜日は{}に決めました",
    ),
}
YEAR_S = 365 * 86_400.0
BEGIN = 1_700_000_000.0
WINDOW, JUMP = 40, 16
"""The window of a prompt: its length in records, and the step by which its beginning moves."""


@dataclass
class YearFigures:
    """The measured figures. The process is measured at the end of each twentieth of the year."""

    messages: int = 0
    turns: int = 0
    restarts: int = 0
    asks: int = 0
    summary_tokens: int = 0
    notes_tokens: int = 0
    notes: int = 0
    notes_that_hold: int = 0
    summaries: int = 0
    whole: int = 0
    database_bytes: int = 0
    slowest_section_ms: float = 0.0
    seconds: float = 0.0
    process_bytes: list[int] = field(default_factory=list)

    @property
    def growth_bytes(self) -> int:
        """How much the process grew after the first fifth."""
        settled = self.process_bytes[len(self.process_bytes) // 5]
        return max(self.process_bytes[-4:]) - settled


class ScriptedQuick:
    """Makes summaries and notes like a quick model, and sometimes fails."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.asks = 0

    def require(self) -> None:
        """Never raise, because this model always exists."""

    async def ask(self, instructions: str, text: str, *, max_tokens: int) -> str:
        self.asks += 1
        roll = self._chance.random()
        if roll < 0.02:
            raise TimeoutError
        if roll < 0.03:
            return "x" * 1_000_000
        if "notes of a chat" in instructions:
            return self._notes(text)
        lines = [line for line in text.splitlines() if line.strip()]
        told = self._chance.sample(lines, min(4, len(lines)))
        return "They spoke: " + "; ".join(line[:120] for line in told)

    def _notes(self, text: str) -> str:
        said = re.findall(r"^#(\d+) .* \((\d+)\): (.+)$", text, re.MULTILINE)
        drawn = self._chance.sample(said, min(3, len(said)))
        lines = [
            json.dumps({"kind": "fact", "text": words, "about": who, "from": int(number)})
            for number, who, words in drawn
        ]
        return "\n".join(lines) or "NOTHING"


async def live(
    folder: Path, *, messages: int, turns: int, restarts: int, seed: int = 1
) -> YearFigures:
    """Let the group talk for a year."""
    chance, figures = random.Random(seed), YearFigures()
    quick, settings = ScriptedQuick(chance), MemorySettings()
    now = BEGIN
    every, part = messages // turns, messages // (restarts + 1)
    began = time.monotonic()

    def clock() -> float:
        return now

    while figures.messages < messages:
        goal = min(figures.messages + part, messages)
        async with Store.open(f"sqlite://{folder}/nekro.sqlite3", clock=clock) as store:
            memory = MemoryKeeper(
                store,
                settings,
                data=folder,
                secret=lambda: "a secret",
                model=quick,
                clock=clock,
                wall=clock,
            )
            await memory.load()
            while figures.messages < goal:
                # People talk, and then pause for hours.
                quiet = figures.messages % 25 == 0
                now += YEAR_S / messages * (24.0 if quiet else 0.04)
                figures.messages += 1
                await _said(store, chance, now)
                if figures.messages % every == 0:
                    await _turn(store, memory, chance, figures, now)
                if quiet:
                    await memory.work()
                if figures.messages % (messages // 20) == 0:
                    figures.process_bytes.append(_process_bytes())
            await _count(store, figures)
        figures.restarts += 1
    figures.restarts -= 1
    figures.asks = quick.asks
    figures.database_bytes = (folder / "nekro.sqlite3").stat().st_size
    figures.seconds = time.monotonic() - began
    return figures


async def _said(store: Store, chance: random.Random, now: float) -> None:
    language = chance.choice((*TOPICS, "en"))
    words = chance.choice(SENTENCES[language]).format(chance.choice(TOPICS[language]))
    await _add(store, f"{words} {chance.randrange(1000)}", chance.choice(PEOPLE), now)


async def _add(store: Store, text: str, by: Sender | None, now: float) -> Record:
    record = Record(
        seq=store.messages.reserve(),
        chat_key=GROUP,
        author=Author.PERSON if by else Author.BOT,
        segments=(Text(text),),
        time=now,
        sender=by or Sender(""),
    )
    await store.messages.add(record, unique_id=None, before=store.chats.seen(GROUP))
    return record


async def _turn(
    store: Store, memory: MemoryKeeper, chance: random.Random, figures: YearFigures, now: float
) -> None:
    """A turn of the bot: read the memory for its prompt, and answer."""
    records = await store.messages.newest(GROUP, WINDOW)
    begins = records[0].seq + (-records[0].seq % JUMP)
    people = {each.sender.user_id for each in records if each.sender.user_id}
    began = time.perf_counter()
    shown: ShownMemory = await memory.sections(GROUP, before_seq=begins, people=people)
    took_ms = (time.perf_counter() - began) * 1000
    figures.slowest_section_ms = max(figures.slowest_section_ms, took_ms)
    figures.summary_tokens = max(figures.summary_tokens, estimate_tokens(shown.summary))
    figures.notes_tokens = max(figures.notes_tokens, estimate_tokens(shown.notes))
    await _add(store, chance.choice(("I see", "noted", "of course")), None, now)
    figures.turns += 1
    await memory.work()


async def _count(store: Store, figures: YearFigures) -> None:
    figures.notes = max(figures.notes, await store.notes.count(GROUP))
    assert figures.notes <= MAX_NOTES
    figures.notes_that_hold = len(await store.notes.of_chats([GROUP]))
    figures.summaries = await store.summaries.count(GROUP)
    figures.whole = len(await store.summaries.of_chat(GROUP, level=SUMMARIES_LEVEL))
    rows = await store.summaries.of_chat(GROUP, level=RECORDS_LEVEL, limit=10_000)
    assert all(len(each.text) <= 1_000 for each in rows)


def _process_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Simulate the year and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--restarts", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    settings = MemorySettings()
    logger.remove()  # else the log would have thousands of lines about new notes
    with tempfile.TemporaryDirectory() as folder:
        figures = anyio.run(
            lambda: live(
                Path(folder),
                messages=options.messages,
                turns=options.turns,
                restarts=options.restarts,
                seed=options.seed,
            )
        )
    megabytes = [round(each / 1e6) for each in figures.process_bytes]
    print(
        f"{figures.messages} messages, {figures.turns} turns, {figures.restarts} restarts, "
        f"{figures.asks} requests to the quick model, {figures.seconds:.0f} s"
    )
    print(
        f"summary in a prompt: at most {figures.summary_tokens} tokens "
        f"(budget {settings.summary_tokens})"
    )
    print(
        f"notes in a prompt:   at most {figures.notes_tokens} tokens "
        f"(budget {settings.notes_tokens})"
    )
    print(f"slowest sections:    {figures.slowest_section_ms:.1f} ms")
    print(
        f"notes kept: {figures.notes} (at most {MAX_NOTES}), {figures.notes_that_hold} hold; "
        f"summaries {figures.summaries}, summaries of summaries {figures.whole}"
    )
    print(f"database: {figures.database_bytes / 1e6:.1f} MB")
    print(f"process: {megabytes} MB, grown by {figures.growth_bytes / 1e6:.1f} MB after a fifth")
    assert figures.summary_tokens <= settings.summary_tokens * 1.05
    assert figures.notes_tokens <= settings.notes_tokens * 1.05
    assert figures.growth_bytes <= 12_000_000, "the process grows"


if __name__ == "__main__":
    main()
