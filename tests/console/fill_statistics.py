"""Fills the test bot's database with a month of messages and turns, so that the charts have data.
The running bot counts these rows into its statistics."""

import time
from pathlib import Path

from bench.large_database import Size, fill_database
from nekro_core.store import ModelUse, Store

NAUGHTY = "<img src=x onerror=alert(1)>"
"""A model with this name tests that a name is not rendered as HTML."""
MONTH = Size(messages=1500, turns=300, chats=12, days=28)


async def fill_statistics(database_url: str) -> None:
    """Fill a new SQLite database. A database that exists stays as it is."""
    scheme, _, path = database_url.partition("://")
    if scheme != "sqlite" or Path(path).exists():
        return
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    await fill_database(Path(path), MONTH)
    async with Store.open(database_url) as store:
        await store.model_uses.add(
            ModelUse(
                plugin="acme.draw",
                model=NAUGHTY,
                prompt_tokens=1000,
                completion_tokens=50,
                cost=90.0,
                chat_key="",
                user_id="",
                started=time.time() - 3600,
            )
        )
