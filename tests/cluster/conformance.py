"""What every `PartitionLog`, `CallCarrier`, `Leases` and `ObjectStore` must do. The test modules of
the implementations inherit these tests."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from nekro_core.cluster.calls import CALL_BYTES, CallCarrier
from nekro_core.cluster.errors import (
    AnswerTooLarge,
    CallFailed,
    CallTimedOut,
    CallTooLarge,
    LeaseTaken,
    NobodyServes,
    ObjectDamaged,
    ObjectMissing,
    ObjectTooLarge,
)
from nekro_core.cluster.leases import Leases
from nekro_core.cluster.objects import ObjectStore, digest_and_size, fetch_exactly
from nekro_core.cluster.partition_log import ITEM_BYTES, OwnedPartition, PartitionLog
from nekro_core.system.errors import NekroError

_SOON_S = 60.0
"""How long a test waits for something that takes at most some seconds on an idle machine."""


async def until(true: Callable[[], bool], what: str) -> None:
    """Wait until a condition is true. If that takes too long, the error says ``what`` should have
    happened."""
    with anyio.move_on_after(_SOON_S):
        while not true():
            await anyio.sleep(0.01)
        return
    raise AssertionError(f"this did not happen within {_SOON_S:g} s: {what}")


@dataclass
class Diary:
    """What the workers of a test did with the partitions.

    ``handled`` has for each handled item: worker, partition, epoch, content of the item, number of
    tries. ``owners`` has the workers that own each partition now, and ``epochs`` the epochs of all
    its owners so far. The item ``fail_on`` makes the work fail once. The work never gets further
    than the item ``hold_on``.
    """

    handled: list[tuple[str, int, int, bytes, int]] = field(default_factory=list)
    owners: dict[int, list[str]] = field(default_factory=dict)
    epochs: dict[int, list[int]] = field(default_factory=dict)
    fail_on: bytes = b""
    hold_on: bytes = b""

    def work(self, worker: str) -> Callable[[OwnedPartition], Awaitable[None]]:
        """Return the work of one worker. The work writes each item that the worker gets into this
        diary."""

        async def work(owned: OwnedPartition) -> None:
            partition, epoch = owned.ownership.partition, owned.ownership.epoch
            here = self.owners.setdefault(partition, [])
            assert not here, f"{worker} owns {partition}, and so does {here}"
            here.append(worker)
            self.epochs.setdefault(partition, []).append(epoch)
            try:
                async for item in owned.items():
                    self.handled.append((worker, partition, epoch, item.data, item.tries))
                    if item.data == self.fail_on:
                        self.fail_on = b""
                        raise RuntimeError("the test wants this work to fail")
                    if item.data == self.hold_on:
                        await anyio.sleep_forever()
            finally:
                here.remove(worker)

        return work

    def of(self, worker: str) -> set[int]:
        """Return the partitions that a worker owns now."""
        return {partition for partition, owners in self.owners.items() if worker in owners}

    def items(self) -> list[bytes]:
        """Return the contents of the handled items, in the order in which they were handled."""
        return [data for _, _, _, data, _ in self.handled]


@asynccontextmanager
async def working(log: PartitionLog, worker: str, diary: Diary) -> AsyncIterator[anyio.CancelScope]:
    """Let a worker own its share of the partitions until the block ends."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(log.own, worker, diary.work(worker))
        yield tasks.cancel_scope
        tasks.cancel_scope.cancel()


class PartitionLogContract:
    """The tests of a `PartitionLog`. The fixture ``log`` must give one with 8 partitions."""

    async def test_the_owner_gets_the_items_of_a_partition_in_order(
        self, log: PartitionLog
    ) -> None:
        diary = Diary()
        sent = [b"item %d" % number for number in range(50)]
        for number, item in enumerate(sent):
            await log.publish(3, item, item_id=f"{number}")
        async with working(log, "ada", diary):
            await until(lambda: len(diary.handled) >= 50, "50 items are handled")
        assert diary.items() == sent
        assert {(worker, partition) for worker, partition, *_ in diary.handled} == {("ada", 3)}
        assert {tries for *_, tries in diary.handled} == {1}

    async def test_every_partition_gets_an_owner_even_without_items(
        self, log: PartitionLog
    ) -> None:
        diary = Diary()
        async with working(log, "ada", diary):
            await until(lambda: len(diary.of("ada")) == 8, "all partitions have an owner")
        assert diary.handled == []

    async def test_an_item_with_a_known_id_is_not_stored_again(self, log: PartitionLog) -> None:
        diary = Diary()
        await log.publish(1, b"once", item_id="a")
        await log.publish(1, b"once", item_id="a")
        await log.publish(2, b"elsewhere", item_id="a")
        await log.publish(1, b"last", item_id="b")
        async with working(log, "ada", diary):
            await until(lambda: b"last" in diary.items(), "the last item is handled")
            await until(lambda: b"elsewhere" in diary.items(), "the other partition's is handled")
        assert sorted(diary.items()) == [b"elsewhere", b"last", b"once"]

    async def test_an_item_whose_work_failed_is_given_out_again_before_the_next(
        self, log: PartitionLog
    ) -> None:
        diary = Diary(fail_on=b"two")
        for item in (b"one", b"two", b"three"):
            await log.publish(5, item, item_id=item.decode())
        async with working(log, "ada", diary):
            await until(lambda: b"three" in diary.items(), "the item behind it is handled")
        assert diary.items() == [b"one", b"two", b"two", b"three"]
        assert [tries for *_, tries in diary.handled] == [1, 1, 2, 1]
        first, second = diary.epochs[5]
        assert first < second

    async def test_of_two_workers_each_owns_half_of_the_partitions(self, log: PartitionLog) -> None:
        diary = Diary()
        async with working(log, "ada", diary):
            await until(lambda: len(diary.of("ada")) == 8, "ada owns all")
            async with working(log, "bob", diary):
                await until(
                    lambda: len(diary.of("ada")) == 4 and len(diary.of("bob")) == 4,
                    "each owns four",
                )
                for partition in range(8):
                    await log.publish(partition, b"%d" % partition, item_id="shared")
                await until(lambda: len(diary.handled) == 8, "all items are handled")
            assert {worker for worker, *_ in diary.handled} == {"ada", "bob"}
            assert sorted(diary.items()) == [b"%d" % number for number in range(8)]

    async def test_a_worker_that_ends_hands_its_partitions_over(self, log: PartitionLog) -> None:
        diary = Diary(hold_on=b"held")
        await log.publish(6, b"held", item_id="held")
        await log.publish(6, b"behind", item_id="behind")
        async with working(log, "ada", diary) as ada:
            await until(lambda: diary.items() == [b"held"], "ada has the item in hand")
            ada.cancel()
        diary.hold_on = b""
        assert diary.of("ada") == set()
        async with working(log, "bob", diary):
            await until(lambda: b"behind" in diary.items(), "bob handles both")
        assert [(worker, data) for worker, _, _, data, _ in diary.handled] == [
            ("ada", b"held"),
            ("bob", b"held"),
            ("bob", b"behind"),
        ]
        assert diary.epochs[6] == sorted(set(diary.epochs[6]))

    async def test_bad_input_is_refused_with_what_was_expected(self, log: PartitionLog) -> None:
        for partition in (-1, 8, 10_000):
            with pytest.raises(ValueError, match="partitions 0 to 7"):
                await log.publish(partition, b"", item_id="a")
        with pytest.raises(ValueError, match="at most"):
            await log.publish(0, b"x" * (ITEM_BYTES + 1), item_id="a")
        for item_id in ("", "x" * 201, "two\r\nlines", "ä"):
            with pytest.raises(ValueError, match="visible"):
                await log.publish(0, b"", item_id=item_id)
        for worker in ("", "x" * 65, "a.b", "a b", "*"):
            with pytest.raises(ValueError, match="letters, digits"):
                await log.own(worker, Diary().work(worker))


class CallContract:
    """The tests of a `CallCarrier`. The fixture ``calls`` must give one."""

    async def test_a_call_is_answered(self, calls: CallCarrier) -> None:
        async def upper(request: bytes) -> bytes:
            return request.upper()

        async with calls.serve("account.onebot_v11", upper):
            assert await calls.call("account.onebot_v11", b"hello", within_s=5) == b"HELLO"
            assert await calls.call("account.onebot_v11", b"", within_s=5) == b""

    async def test_calls_are_handled_at_the_same_time(self, calls: CallCarrier) -> None:
        both = anyio.Event()
        here: list[bytes] = []

        async def meet(request: bytes) -> bytes:
            here.append(request)
            if len(here) == 2:
                both.set()
            await both.wait()
            return request

        async with calls.serve("a", meet), anyio.create_task_group() as tasks:
            for request in (b"one", b"two"):
                tasks.start_soon(lambda request=request: calls.call("a", request, within_s=10))
        assert sorted(here) == [b"one", b"two"]

    async def test_a_name_that_nobody_serves_fails_at_once(self, calls: CallCarrier) -> None:
        with pytest.raises(NobodyServes, match=r"account\.nobody"):
            await calls.call("account.nobody", b"", within_s=30)

    async def test_a_name_is_served_once_at_a_time_and_is_free_after_the_block_that_served_it(
        self, calls: CallCarrier
    ) -> None:
        async def echo(request: bytes) -> bytes:
            return request

        async with calls.serve("a.b", echo):
            with pytest.raises(ValueError, match="served by this process"):
                async with calls.serve("a.b", echo):
                    pass
        with pytest.raises(NobodyServes):
            await calls.call("a.b", b"", within_s=5)
        async with calls.serve("a.b", echo):
            assert await calls.call("a.b", b"x", within_s=5) == b"x"

    async def test_an_error_of_the_handler_reaches_the_caller_as_text(
        self, calls: CallCarrier
    ) -> None:
        class Odd(NekroError):
            pass

        async def fail(request: bytes) -> bytes:
            if request == b"known":
                raise Odd("the account is away")
            raise KeyError("a path of this machine")

        async with calls.serve("a", fail):
            with pytest.raises(CallFailed, match="the account is away"):
                await calls.call("a", b"known", within_s=5)
            with pytest.raises(CallFailed, match="its log has the reason") as caught:
                await calls.call("a", b"unknown", within_s=5)
            assert "path" not in str(caught.value)

    async def test_a_call_without_an_answer_in_time_fails_and_its_handler_is_cancelled(
        self, calls: CallCarrier
    ) -> None:
        cancelled = anyio.Event()

        async def sleep(request: bytes) -> bytes:
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.set()
            return request

        async with calls.serve("a", sleep):
            with pytest.raises(CallTimedOut, match=r"within 0\.3 s"):
                await calls.call("a", b"", within_s=0.3)
            with anyio.fail_after(30):
                await cancelled.wait()

    async def test_a_caller_that_stops_waiting_cancels_the_handler(
        self, calls: CallCarrier
    ) -> None:
        begun, cancelled = anyio.Event(), anyio.Event()

        async def sleep(request: bytes) -> bytes:
            begun.set()
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.set()
            return request

        async with calls.serve("a", sleep):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: calls.call("a", b"", within_s=60))
                await begun.wait()
                tasks.cancel_scope.cancel()
            with anyio.fail_after(30):
                await cancelled.wait()

    async def test_a_request_or_an_answer_that_is_too_large_is_refused(
        self, calls: CallCarrier
    ) -> None:
        got: list[int] = []

        async def double(request: bytes) -> bytes:
            got.append(len(request))
            return request * 2

        async with calls.serve("a", double):
            with pytest.raises(CallTooLarge, match="request"):
                await calls.call("a", b"x" * (CALL_BYTES + 1), within_s=5)
            assert got == []
            with pytest.raises(AnswerTooLarge, match="answer"):
                await calls.call("a", b"x" * CALL_BYTES, within_s=20)
            assert got == [CALL_BYTES]

    async def test_any_text_of_1_to_200_characters_can_be_the_name_of_what_is_called(
        self, calls: CallCarrier
    ) -> None:
        async def one(request: bytes) -> bytes:
            return b"one"

        async def two(request: bytes) -> bytes:
            return b"two"

        async with calls.serve("account.*", one), calls.serve("account.a b > c.ü", two):
            assert await calls.call("account.*", b"", within_s=5) == b"one"
            assert await calls.call("account.a b > c.ü", b"", within_s=5) == b"two"
            with pytest.raises(NobodyServes):
                await calls.call("account.x", b"", within_s=5)
        for name in ("", "x" * 201):
            with pytest.raises(ValueError, match="1 to 200"):
                await calls.call(name, b"", within_s=5)
        with pytest.raises(ValueError, match="time limit"):
            await calls.call("a", b"", within_s=0)


class LeaseContract:
    """The tests of `Leases`. The fixture ``leases`` must give them."""

    async def test_a_name_is_leased_by_one_holder_at_a_time(self, leases: Leases) -> None:
        async with leases.hold("account.a*.b", "gateway 1"):
            with pytest.raises(LeaseTaken, match=r"account\.a\*\.b is used by gateway 1"):
                async with leases.hold("account.a*.b", "gateway 2"):
                    pass
            async with leases.hold("account.axxb", "gateway 2"):
                pass
        async with leases.hold("account.a*.b", "gateway 2"):
            pass

    async def test_a_lease_is_current_while_its_block_runs(self, leases: Leases) -> None:
        assert not leases.is_current("a")
        async with leases.hold("a", "gateway 1"):
            assert leases.is_current("a")
            assert not leases.is_current("b")
        assert not leases.is_current("a")

    async def test_one_process_does_not_use_a_name_twice(self, leases: Leases) -> None:
        async with leases.hold("a", "gateway 1"):
            with pytest.raises(LeaseTaken, match="a is used by gateway 1"):
                async with leases.hold("a", "gateway 1"):
                    raise AssertionError("the name was used twice")

    async def test_an_error_of_the_block_frees_the_name(self, leases: Leases) -> None:
        with pytest.raises(RuntimeError, match="as the test wants"):
            async with leases.hold("a", "gateway 1"):
                raise RuntimeError("as the test wants")
        async with leases.hold("a", "gateway 2"):
            pass


class ObjectContract:
    """The tests of an `ObjectStore`. The fixture ``objects`` must give one whose objects have at
    most 1 MiB each."""

    async def test_an_object_is_fetched_as_it_was_stored(
        self, objects: ObjectStore, tmp_path: Path
    ) -> None:
        source, target = tmp_path / "source", tmp_path / "new" / "target"
        for content in (b"", b"short", bytes(range(256)) * 2048):
            source.write_bytes(content)
            await objects.put("boxes/a=b/files.tar", source)
            assert await objects.fetch("boxes/a=b/files.tar", target) == len(content)
            assert target.read_bytes() == content
            assert target.stat().st_mode & 0o777 == 0o600
        assert [each.name for each in target.parent.iterdir()] == ["target"]

    async def test_objects_are_listed_and_deleted(
        self, objects: ObjectStore, tmp_path: Path
    ) -> None:
        assert await objects.names() == []
        source = tmp_path / "source"
        source.write_bytes(b"x")
        for name in ("media/b", "media/a", "boxes/c"):
            await objects.put(name, source)
        assert await objects.names() == ["boxes/c", "media/a", "media/b"]
        assert await objects.names("media/") == ["media/a", "media/b"]
        assert await objects.delete("media/a") is True
        assert await objects.delete("media/a") is False
        assert await objects.names("media/") == ["media/b"]

    async def test_fetching_a_missing_object_fails_and_leaves_the_target_file_unchanged(
        self, objects: ObjectStore, tmp_path: Path
    ) -> None:
        target = tmp_path / "target"
        target.write_bytes(b"as before")
        with pytest.raises(ObjectMissing, match="media/none"):
            await objects.fetch("media/none", target)
        assert target.read_bytes() == b"as before"
        assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []

    async def test_a_file_that_is_too_large_leaves_the_old_object(
        self, objects: ObjectStore, tmp_path: Path
    ) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        source.write_bytes(b"old")
        await objects.put("a", source)
        source.write_bytes(b"x" * (1024 * 1024 + 1))
        with pytest.raises(ObjectTooLarge, match="1048577 bytes"):
            await objects.put("a", source)
        await objects.fetch("a", target)
        assert target.read_bytes() == b"old"

    async def test_an_object_with_more_bytes_than_the_reader_accepts_is_not_fetched(
        self, objects: ObjectStore, tmp_path: Path
    ) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        source.write_bytes(b"x" * 300_000)
        await objects.put("plugins/a", source)
        target.write_bytes(b"as before")
        with pytest.raises(ObjectTooLarge, match=r"plugins/a has more than 299999 bytes"):
            await objects.fetch("plugins/a", target, most_bytes=299_999)
        assert target.read_bytes() == b"as before"
        assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []
        assert await objects.fetch("plugins/a", target, most_bytes=300_000) == 300_000

    async def test_an_object_is_fetched_exactly_as_it_was_stored_or_not_at_all(
        self, objects: ObjectStore, tmp_path: Path
    ) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        source.write_bytes(b"right")
        digest, size = digest_and_size(source)
        await objects.put("media/a", source)
        await fetch_exactly(objects, "media/a", target, sha256=digest, size=size)
        assert target.read_bytes() == b"right"
        target.unlink()
        source.write_bytes(b"wrong")
        await objects.put("media/a", source)
        with pytest.raises(ObjectDamaged, match="media/a has another content"):
            await fetch_exactly(objects, "media/a", target, sha256=digest, size=size)
        target.unlink()
        source.write_bytes(b"right and more")
        await objects.put("media/a", source)
        with pytest.raises(ObjectDamaged, match="with more than 5 bytes"):
            await fetch_exactly(objects, "media/a", target, sha256=digest, size=size)
        assert not target.exists()

    @pytest.mark.parametrize(
        "name", ["", "/a", "a/", "a//b", "../a", "a/../b", ".a", "a/.b", "a b", "ä", "a" * 301]
    )
    async def test_a_name_cannot_leave_the_store(
        self, objects: ObjectStore, tmp_path: Path, name: str
    ) -> None:
        source = tmp_path / "source"
        source.write_bytes(b"x")
        with pytest.raises(ValueError, match="object name"):
            await objects.put(name, source)
        with pytest.raises(ValueError, match="object name"):
            await objects.fetch(name, tmp_path / "target")
        with pytest.raises(ValueError, match="object name"):
            await objects.delete(name)
