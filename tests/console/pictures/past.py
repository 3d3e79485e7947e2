"""Writes four weeks of messages and turns into a new database."""

import json
import random
import sqlite3
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from nekro_core.store import Store
from tests.console.pictures.story import CHATS, MEI, MODELS, PEOPLE, TOOLS, StoryChat

DAYS = 28
_DAY_S = 86_400.0
_HOURS = (0.1, 0.1, 0, 0, 0, 0, 0.3, 1, 2, 2, 2, 2, 3, 3, 2, 2, 2, 3, 4, 5, 6, 5, 3, 1)
"""How much people write in each hour of the day."""
_STOPS = ("finished",) * 40 + ("limit_steps", "model_unreachable", "stopped")
SHOWN_HOUR = 17
"""The screenshots of the console always show this hour of the day. The bot gets a time zone in
which it is this hour now."""
_UNTIL_TODAY_S = 3 * 3600.0
"""This module writes no messages of the last three hours. bot.py later adds conversations of this
time."""

Rows = dict[str, list[Mapping[str, object]]]


async def write_past(path: Path) -> None:
    """Make a SQLite file with the messages and turns before today. Each run makes the same content;
    only the dates differ."""
    async with Store.open(f"sqlite://{path}") as store:
        await store.accounts.bind("onebot_v11", MEI)
    chance = random.Random(13)
    now = time.time()
    rows: Rows = {"chats": [], "users": [], "messages": []}
    begin = now - DAYS * _DAY_S
    for chat in CHATS:
        name = "" if chat.private else chat.name
        rows["chats"].append(
            {
                "chat_key": chat.key,
                "instance": "onebot_v11",
                "first_seen": begin,
                "handled_seq": 0,
                "name": name,
            }
        )
    for user, name in PEOPLE.items():
        rows["users"].append(
            {"instance": "onebot_v11", "user_id": str(user), "name": name, "first_seen": begin}
        )
    _write_messages(rows, chance, now)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN")
        for table, content in rows.items():
            _insert(database, table, content)
        database.execute("COMMIT")


def hours_ahead() -> int:
    """How many hours the bot's time zone is ahead of UTC, between -11 and 12."""
    ahead = SHOWN_HOUR - datetime.now(UTC).hour
    return (ahead + 11) % 24 - 11


def _times(chance: random.Random, now: float) -> Iterable[float]:
    """The times of the messages, in order. Each week has a few more messages than the week
    before."""
    for day in range(DAYS, -1, -1):
        midnight = now - (now + hours_ahead() * 3600) % _DAY_S - day * _DAY_S
        count = 38 + (DAYS - day) // 2 + chance.randint(-9, 12)
        hours = chance.choices(range(24), _HOURS, k=count)
        yield from sorted(
            at
            for hour in hours
            if (at := midnight + hour * 3600 + chance.random() * 3600) < now - _UNTIL_TODAY_S
        )


def _write_messages(rows: Rows, chance: random.Random, now: float) -> None:
    seq = 0
    for at in _times(chance, now):
        (chat,) = chance.choices(CHATS, [each.weight for each in CHATS])
        who = chat.people[int(len(chat.people) * chance.random() ** 1.6)]
        answered = chat.private or chance.random() < 0.22
        seq += 1
        decision = ("private" if chat.private else "addressed") if answered else "not_addressed"
        rows["messages"].append(_message(chat, seq, at, chance.choice(chat.phrases), who, decision))
        if answered:
            seconds = chance.lognormvariate(0.9, 0.5)
            _write_turn(rows, chance, chat, seq, who, at + 0.8, seconds)
            seq += 1
            rows["messages"].append(_message(chat, seq, at + 0.8 + seconds, "👍", 0, ""))


def _message(
    chat: StoryChat, seq: int, at: float, text: str, who: int, decision: str
) -> Mapping[str, object]:
    return {
        "seq": seq,
        "chat_key": chat.key,
        "instance": "onebot_v11",
        "unique_id": f"past-{seq}",
        "message_id": f"past-{seq}",
        "author": "person" if who else "bot",
        "user_id": str(who) if who else "",
        "user_name": PEOPLE.get(who, ""),
        "role": "member",
        "segments": json.dumps([{"type": "text", "text": text}], ensure_ascii=False),
        "time": at,
        "to_bot": decision == "addressed",
        "from_history": False,
        "recalled": False,
        "run_id": "",
        "state": "sent",
        "decision": decision,
    }


def _write_turn(
    rows: Rows,
    chance: random.Random,
    chat: StoryChat,
    seq: int,
    who: int,
    started: float,
    seconds: float,
) -> None:
    number = len(rows.setdefault("turns", [])) + 1
    (model,) = chance.choices([name for name, _ in MODELS], [count for _, count in MODELS])
    (tool,) = chance.choices([name for name, _ in TOOLS], [count for _, count in TOOLS])
    prompt = chance.randint(1800, 6200)
    common = {"chat_key": chat.key, "turn_id": number}
    rows["turns"].append(
        {
            "id": number,
            "chat_key": chat.key,
            "trigger_seq": seq,
            "through_seq": seq,
            "user_id": str(who),
            "stop": chance.choice(_STOPS),
            "attempts": 1,
            "started": started,
            "ended": started + seconds,
        }
    )
    rows.setdefault("steps", []).append(
        {
            **common,
            "user_id": str(who),
            "position": 0,
            "reply": f"{tool}(...)",
            "tail": "",
            "model": model,
            "prompt_tokens": prompt,
            "cached_tokens": int(prompt * chance.uniform(0.5, 0.9)),
            "completion_tokens": chance.randint(40, 420),
            "estimated": False,
            "cost": prompt * (0.4e-6 if model == "gpt-4o-mini" else 0.27e-6) + 0.0003,
            "started": started,
            "seconds": seconds * 0.8,
        }
    )
    run = f"past-{number}"
    rows.setdefault("runs", []).append(
        {
            **common,
            "run_id": run,
            "step": 0,
            "code": f"{tool}(...)",
            "output": "",
            "stop": "finished",
            "error": "",
            "started": started + seconds * 0.5,
            "seconds": seconds * 0.3,
        }
    )
    rows.setdefault("tool_calls", []).append(
        {
            "run_id": run,
            "position": 0,
            "name": tool,
            "arguments": "{}",
            "outcome": "ok" if chance.random() < 0.97 else "TimeoutError: no answer within 10 s",
            "started": started + seconds * 0.6,
            "seconds": 0.05,
        }
    )
    rows.setdefault("deliveries", []).append(
        {
            "delivery_id": run,
            "chat_key": chat.key,
            "run_id": run,
            "position": 0,
            "segments": '[{"type": "text", "text": "👍"}]',
            "state": "sent",
            "message_id": "",
            "reason": "",
            "record_seq": 0,
            "created": started + seconds * 0.7,
            "changed": started + seconds * 0.75,
        }
    )


def _insert(database: sqlite3.Connection, table: str, rows: list[Mapping[str, object]]) -> None:
    marks = ", ".join("?" * len(rows[0]))
    database.executemany(
        f"INSERT INTO {table} ({', '.join(rows[0])}) VALUES ({marks})",
        [tuple(row.values()) for row in rows],
    )
