"""If a name server never answers, only the chats that look up names there must wait."""

import anyio
import pytest

from nekro_core.system.host_resolver import AT_ONCE, PER_KEY, HostResolver


async def test_stuck_lookups_of_one_chat_do_not_block_another_chat() -> None:
    asked: list[str] = []

    async def resolve(host: str, _: int) -> list[str]:
        asked.append(host)
        if host.startswith("stuck"):
            await anyio.sleep_forever()
        return ["192.0.2.1"]

    lookups = HostResolver(resolve)
    async with anyio.create_task_group() as tasks:
        for number in range(AT_ONCE * 2):
            tasks.start_soon(lookups.addresses, f"stuck{number}", 80, "slow")
        await anyio.wait_all_tasks_blocked()
        assert len(asked) == PER_KEY
        with anyio.fail_after(30):
            assert await lookups.addresses("quick", 80, "quick") == ["192.0.2.1"]
        tasks.cancel_scope.cancel()


async def test_the_resolver_of_the_operating_system_does_not_block_the_event_loop() -> None:
    lookups = HostResolver()
    assert "127.0.0.1" in await lookups.addresses("localhost", 80, "a chat")
    assert await lookups.addresses("127.0.0.1", 80, "a chat") == ["127.0.0.1"]
    for name in ("a..b", "x" * 70 + ".example", "no such name"):
        with pytest.raises(OSError, match=r".+"):
            await lookups.addresses(name, 80, "a chat")
