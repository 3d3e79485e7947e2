"""Makes a database as large as that of a busy bot after a year: by default 1,000,000 messages in
5,000 chats, 200,000 turns, and the entries that operators and timers leave in that time."""

import json
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from nekro_core.store import Store
from nekro_core.store.turns import NORMAL_STOPS

_DAY_S = 86_400.0
_BATCH = 10_000
_PEOPLE = 20_000
_WORDS = (
    *(
        "今天天气不错",
        "我们去吃饭吧",
        "这个模型很快",
        "机器人在吗",
        "图书馆几点关门",
        "谢谢你",
        "好的",
    ),
    *("明日の会議", "お疲れ様です", "猫が好きです", "天気はどう", "写真を送ります"),
    *("the weather", "a picture", "deploy", "good morning", "what time", "library", "thank you"),
    *("does it work", "again", "please", "two sugars", "the model", "see you", "later", "nothing"),
)
_TOOLS = ("send_channel_message", "roll_dice", "draw", "search_web")
_MODELS = ("large", "small", "vision")
_STOPS = ("finished",) * 17 + ("limit_steps", "model_unreachable", "stopped")
_UNDELIVERED = 1_000
"""One message in this many was not delivered."""
_AREAS = ("chats", "models", "plugins", "settings", "timers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many rows the database gets. ``messages`` counts the messages of people and of the bot.
    ``audited`` is the number of changes that operators made."""

    messages: int = 1_000_000
    turns: int = 200_000
    chats: int = 5_000
    days: int = 365
    audited: int = 0
    timers: int = 0


async def fill_database(path: Path, size: Size, *, seed: int = 1) -> float:
    """Make a SQLite file with the tables of this version, and fill it. The statistics are not
    filled. Returns how many seconds it took."""
    begun = time.perf_counter()
    async with Store.open(f"sqlite://{path}") as store:
        await store.accounts.bind("onebot_v11", "20002")
        await store.accounts.bind("telegram", "7")
    chance = random.Random(seed)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")
        now = time.time()
        chats = [_chat(number) for number in range(size.chats)]
        _insert(database, "chats", _chat_rows(chats, size, now))
        _insert(database, "users", _user_rows(now))
        _insert(database, "messages", _message_rows(chance, chats, size, now))
        _insert_turns(database, chance, chats, size, now)
        _insert(database, "audit_log", _audit_rows(chance, chats, size, now))
        _insert(database, "timers", _timer_rows(chats, size, now))
        database.execute("ANALYZE")
    return time.perf_counter() - begun


def _chat(number: int) -> tuple[str, str]:
    """The key and the instance of a chat."""
    instance = "telegram" if number % 3 == 0 else "onebot_v11"
    kind = "private" if number % 5 == 4 else "group"
    return f"{instance}-{kind}_{10_000 + number}", instance


def _picked(chance: random.Random, chats: list[tuple[str, str]]) -> tuple[str, str]:
    """Pick a chat at random. A few chats are busy, most are quiet."""
    return chats[int(len(chats) * chance.random() ** 3)]


def _member(chance: random.Random, key: str) -> int:
    """Pick a person of a chat at random. A group has up to 200 members, and a few of them write
    most messages."""
    number = int(key.rpartition("_")[2])
    size = 1 if "-private_" in key else 200
    return (number * 37 + int(size * chance.random() ** 3)) % _PEOPLE


def _chat_rows(chats: list[tuple[str, str]], size: Size, now: float) -> Iterator[dict[str, object]]:
    for number, (key, instance) in enumerate(chats):
        name = "" if "-private_" in key else f"{_WORDS[number % len(_WORDS)]} {number}"
        yield {
            "chat_key": key,
            "instance": instance,
            "first_seen": now,
            # Without this value, the bot would answer the newest messages when it starts.
            "handled_seq": size.messages,
            "name": name,
        }


def _user_rows(now: float) -> Iterator[dict[str, object]]:
    for number in range(_PEOPLE):
        for instance in ("onebot_v11", "telegram"):
            yield {
                "instance": instance,
                "user_id": str(10_000 + number),
                "name": f"{_WORDS[number * 7 % len(_WORDS)]} {number}",
                "first_seen": now,
            }


def _message_rows(
    chance: random.Random, chats: list[tuple[str, str]], size: Size, now: float
) -> Iterator[dict[str, object]]:
    step = size.days * _DAY_S / size.messages
    for number in range(size.messages):
        key, instance = _picked(chance, chats)
        of_bot = chance.random() < size.turns / size.messages
        user = 0 if of_bot else _member(chance, key)
        words = " ".join(chance.choices(_WORDS, k=chance.randint(1, 8)))
        yield {
            "seq": number + 1,
            "chat_key": key,
            "instance": instance,
            "unique_id": f"m{number}",
            "message_id": f"m{number}",
            "author": "bot" if of_bot else "person",
            "user_id": "" if of_bot else str(10_000 + user),
            "user_name": "" if of_bot else f"{_WORDS[user * 7 % len(_WORDS)]} {user}",
            "role": "member",
            "segments": json.dumps([{"type": "text", "text": words}], ensure_ascii=False),
            "time": now - (size.messages - number) * step,
            "to_bot": False,
            "from_history": False,
            "recalled": False,
            "run_id": "",
            "state": "sent",
            "decision": "" if of_bot else "not_addressed",
        }


def _insert_turns(
    database: sqlite3.Connection,
    chance: random.Random,
    chats: list[tuple[str, str]],
    size: Size,
    now: float,
) -> None:
    tables: dict[str, list[dict[str, object]]] = {}
    step = size.days * _DAY_S / size.turns
    for number in range(1, size.turns + 1):
        for table, row in _turn_rows(
            chance, chats, size, number, now - (size.turns - number) * step
        ):
            tables.setdefault(table, []).append(row)
        if number % _BATCH == 0 or number == size.turns:
            for table, rows in tables.items():
                _insert(database, table, iter(rows))
            tables.clear()


def _turn_rows(
    chance: random.Random, chats: list[tuple[str, str]], size: Size, number: int, started: float
) -> Iterator[tuple[str, dict[str, object]]]:
    key, _ = _picked(chance, chats)
    user = str(10_000 + _member(chance, key))
    seconds, run = chance.lognormvariate(1.2, 0.7), f"r{number}"
    seq = int(number / size.turns * size.messages)
    stop, model = chance.choice(_STOPS), chance.choice(_MODELS)
    yield (
        "turns",
        {
            "id": number,
            "chat_key": key,
            "trigger_seq": seq,
            "through_seq": seq,
            "user_id": user,
            "stop": stop,
            "model": model,
            "failed": stop not in NORMAL_STOPS,
            "attempts": 1,
            "started": started,
            "ended": started + seconds,
        },
    )
    yield (
        "steps",
        {
            "turn_id": number,
            "chat_key": key,
            "user_id": user,
            "position": 0,
            "reply": "send_channel_message('yes')",
            "tail": "",
            "model": model,
            "prompt_tokens": chance.randint(500, 9_000),
            "cached_tokens": chance.randint(0, 500),
            "completion_tokens": chance.randint(5, 400),
            "estimated": False,
            "cost": chance.random() / 50,
            "started": started,
            "seconds": seconds * 0.8,
        },
    )
    yield (
        "runs",
        {
            "run_id": run,
            "chat_key": key,
            "turn_id": number,
            "step": 0,
            "code": "send_channel_message('yes')",
            "output": "",
            "stop": "finished",
            "error": "",
            "started": started,
            "seconds": 0.1,
        },
    )
    yield (
        "tool_calls",
        {
            "run_id": run,
            "position": 0,
            "name": chance.choice(_TOOLS),
            "arguments": '{"text": "yes"}',
            "outcome": "ok" if chance.random() < 0.95 else "ValueError: no",
            "started": started + seconds * 0.8,
            "seconds": 0.05,
        },
    )
    yield (
        "deliveries",
        {
            "delivery_id": f"d{number}",
            "chat_key": key,
            "run_id": run,
            "position": 0,
            "segments": '[{"type": "text", "text": "yes"}]',
            "state": "sent" if number % _UNDELIVERED else "rejected",
            "message_id": "",
            "reason": "" if number % _UNDELIVERED else "the platform refused the message",
            "record_seq": 0,
            "created": started + seconds * 0.7,
            "changed": started + seconds * 0.8,
        },
    )


def _audit_rows(
    chance: random.Random, chats: list[tuple[str, str]], size: Size, now: float
) -> Iterator[dict[str, object]]:
    for number in range(size.audited):
        at = now - (size.audited - number) * size.days * _DAY_S / size.audited
        yield {
            "at": at,
            "ended": at + 0.01,
            "actor": chance.choice(("Lin", "Aoi", "Kim")),
            "role": "operator",
            "origin": "page",
            "address": "127.0.0.1",
            "action": f"{chance.choice(_AREAS)}.change",
            "parameters": "{}",
            "subject": _picked(chance, chats)[0],
            "old": '"on"',
            "new": '"off"',
            "outcome": "done",
            "error": "",
            "undo_action": "",
            "undo_parameters": "",
            "undone_by": 0,
        }


def _timer_rows(
    chats: list[tuple[str, str]], size: Size, now: float
) -> Iterator[dict[str, object]]:
    for number in range(size.timers):
        yield {
            "timer_id": f"t{number}",
            "chat_key": chats[number % len(chats)][0],
            "kind": "once",
            "state": "active",
            "text": "look whether the library is open",
            "title": "",
            "cron": "",
            "timezone": "UTC",
            "workdays": "none",
            "due": now + (number + 2) * _DAY_S,
            "told_due": 0.0,
            "record_seq": 0,
            "created": now,
        }


def _insert(database: sqlite3.Connection, table: str, rows: Iterator[dict[str, object]]) -> None:
    first = next(rows, None)
    if first is None:
        return
    marks = ", ".join("?" * len(first))
    sql = f"INSERT INTO {table} ({', '.join(first)}) VALUES ({marks})"
    database.execute("BEGIN")
    database.execute(sql, tuple(first.values()))
    database.executemany(sql, (tuple(row.values()) for row in rows))
    database.execute("COMMIT")
