"""What a chat's next messages need is read while it waits, and they are handed over in order."""

import anyio
import pytest

from nekro_core.system.host_resolver import AT_ONCE, PER_KEY, HostResolver
from nekro_core.system.keyed_limiter import KeyedLimiter
from nekro_core.system.keyed_queue import FETCHES_AT_ONCE, READ_AHEAD, KeyedQueue


class Reader:
    """Reads when a test lets it; counts how many read at once."""

    def __init__(self) -> None:
        self.open, self.now, self.most = anyio.Event(), 0, 0

    async def read(self, number: int) -> int:
        self.now += 1
        self.most = max(self.most, self.now)
        await self.open.wait()
        self.now -= 1
        if number == 3:
            raise ValueError("the third is broken")
        return number


async def test_messages_are_read_side_by_side_and_handed_over_in_order() -> None:
    reader, done = Reader(), list[object]()
    async with anyio.create_task_group() as tasks:
        lanes = KeyedQueue(tasks)

        async def say(number: int) -> None:
            reading = lanes.reading("chat", lambda: reader.read(number))

            async def take() -> None:
                try:
                    done.append(await reading.get())
                except ValueError as error:
                    done.append(str(error))

            await lanes.submit("chat", take)

        for number in range(20):
            await say(number)
        await anyio.wait_all_tasks_blocked()
        # The first one in its job, the others ahead of theirs.
        assert reader.most == READ_AHEAD + 1
        assert done == []
        assert not lanes.reading("another chat", lambda: reader.read(0)).begun, (
            "an idle lane reads when it is asked to"
        )
        reader.open.set()
        await lanes.idle()
    assert done == [0, 1, 2, "the third is broken", *range(4, 20)]


async def test_a_lane_has_few_places_for_fetching_and_no_other_waits_for_them() -> None:
    at_once: dict[str, int] = {}
    most: dict[str, int] = {}
    async with anyio.create_task_group() as tasks:
        lanes = KeyedQueue(tasks)

        async def fetch(lane: str) -> None:
            async with lanes.few(lane):
                at_once[lane] = at_once.get(lane, 0) + 1
                most[lane] = max(most.get(lane, 0), at_once[lane])
                await anyio.sleep(0.01)
                at_once[lane] -= 1

        for _ in range(10):
            tasks.start_soon(fetch, "one")
            tasks.start_soon(fetch, "other")
    assert most == {"one": FETCHES_AT_ONCE, "other": FETCHES_AT_ONCE}


async def test_shares_are_forgotten_once_nobody_uses_them() -> None:
    shares = KeyedLimiter(1)
    async with shares.of("a"), shares.of("b"):
        assert set(shares._used) == {"a", "b"}
    with pytest.raises(ValueError, match="broken"):
        async with shares.of("a"):
            raise ValueError("broken")
    assert not shares._used


async def test_one_chats_names_that_nobody_answers_for_leave_room_for_anothers() -> None:
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
        with anyio.fail_after(5):
            assert await lookups.addresses("quick", 80, "quick") == ["192.0.2.1"]
        tasks.cancel_scope.cancel()


async def test_the_systems_resolver_is_asked_beside_the_event_loop() -> None:
    lookups = HostResolver()
    assert "127.0.0.1" in await lookups.addresses("localhost", 80, "a chat")
    assert await lookups.addresses("127.0.0.1", 80, "a chat") == ["127.0.0.1"]
    for name in ("a..b", "x" * 70 + ".example", "no such name"):
        with pytest.raises(OSError, match=r".+"):
            await lookups.addresses(name, 80, "a chat")
