from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import aiosqlite


@dataclass
class Sticker:
    id: int
    chat_key: str
    tag: str
    file: str
    added_by: str


class StickerDB:
    def __init__(self, path: Path):
        self.path = path
        self.conn: aiosqlite.Connection | None = None

    async def open(self):
        self.conn = await aiosqlite.connect(self.path)
        await self.conn.execute(
            "CREATE TABLE IF NOT EXISTS sticker (id INTEGER PRIMARY KEY AUTOINCREMENT, chat_key TEXT, tag TEXT, file TEXT, added_by TEXT, t REAL)"
        )
        await self.conn.commit()

    async def add(self, chat_key, tag, file, added_by) -> int:
        cur = await self.conn.execute(
            "INSERT INTO sticker (chat_key, tag, file, added_by, t) VALUES (?,?,?,?,?)",
            (chat_key, tag, file, added_by, time.time()),
        )
        await self.conn.commit()
        return cur.lastrowid

    async def all(self, chat_key) -> list[Sticker]:
        async with self.conn.execute(
            "SELECT id, chat_key, tag, file, added_by FROM sticker WHERE chat_key=? ORDER BY id",
            (chat_key,),
        ) as cur:
            return [Sticker(*row) async for row in cur]

    async def close(self):
        if self.conn:
            await self.conn.close()
            self.conn = None
