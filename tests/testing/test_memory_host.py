"""A test of an adapter waits for messages with a `MemoryHost`."""

from pathlib import Path

import pytest

from nekro_core.chat import ChatKey
from nekro_core.testing.memory_host import MemoryHost
from tests.delivery.fakes import message

CHAT = ChatKey.parse("fake-group_1")


async def test_a_wait_that_finds_no_message_in_time_skips_none(tmp_path: Path) -> None:
    host = MemoryHost(tmp_path, {})
    with pytest.raises(TimeoutError):
        await host.next_message(limit_s=0.01)
    await host.accept(message(CHAT, "one"))
    await host.accept(message(CHAT, "two"))
    assert [(await host.next_message()).text for _ in range(2)] == ["one", "two"]
