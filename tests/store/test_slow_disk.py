"""If writes wait for a slow disk or a locked database, they do not fill the memory."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nekro_core.store import Store, StoreSettings, StoreUnavailable

from .conftest import GROUP, record


async def test_the_queue_of_waiting_writes_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "nekro.sqlite3"
    settings = StoreSettings(queue=100, batch=1, busy_timeout_s=30)
    async with Store.open(f"sqlite://{path}", settings) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            refused = []
            writes = [
                store.messages.add(record(store), unique_id=None, failed=lambda: refused.append(1))
                for _ in range(130)
            ]
            assert len(refused) == 30
            with pytest.raises(StoreUnavailable, match="writes wait already"):
                await writes[-1]
            other.execute("ROLLBACK")
        for write in writes[:100]:
            await write
        assert len(await store.messages.newest(GROUP, 1000)) == 100
        await store.messages.add(record(store), unique_id=None)
