"""On a busy machine a page takes long to build. That is not an error."""

from pathlib import Path

import httpx
import pytest

from tests.console.process import running_console

pytestmark = pytest.mark.long


async def test_a_page_that_is_built_slowly_is_shown(tmp_path: Path) -> None:
    async with (
        running_console(tmp_path, data=["turns"]) as address,
        httpx.AsyncClient(trust_env=False, timeout=60) as client,
    ):
        answer = await client.get(f"{address}/ui/console/about/slow")
    assert answer.status_code == 200
    assert "It took its time." in answer.text
