"""Callers that need the same reading at about the same time share it."""

import anyio
import anyio.lowlevel
import pytest

from nekro_core.system.shared_reading import SharedReading


class Book:
    """Something that can be read. Each reading takes until the test lets it end."""

    def __init__(self) -> None:
        self.text = "first"
        self.readings = 0
        self.go_on = anyio.Event()
        self.faults = 0

    async def read(self) -> str:
        self.readings += 1
        text = self.text
        await self.go_on.wait()
        if self.faults:
            self.faults -= 1
            raise OSError("torn")
        return text


async def callers_wait() -> None:
    """Let the callers run until they wait. (`anyio.wait_all_tasks_blocked` also waits for tasks of
    others that use this event loop.)"""
    for _ in range(50):
        await anyio.lowlevel.checkpoint()


async def test_each_caller_gets_a_reading_that_began_after_its_call() -> None:
    book, found = Book(), dict[str, str]()
    shared = SharedReading(book.read)

    async def ask(name: str) -> None:
        found[name] = await shared.get()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "early")
            await callers_wait()
            book.text = "second"
            for name in ("late", "later", "latest"):
                tasks.start_soon(ask, name)
            await callers_wait()
            book.go_on.set()
    assert found == {"early": "first", "late": "second", "later": "second", "latest": "second"}
    assert book.readings == 2
    assert await shared.get() == "second"
    assert book.readings == 3, "a result that nobody waits for is not kept"


async def test_a_failed_reading_is_repeated_for_the_next_caller() -> None:
    book = Book()
    book.faults = 1
    shared, found = SharedReading(book.read), list[str]()

    async def ask() -> None:
        try:
            found.append(await shared.get())
        except OSError as error:
            found.append(str(error))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(ask)
            await callers_wait()
            book.go_on.set()
    assert found == ["torn", "first", "first"]
    book.faults = 1
    with pytest.raises(OSError, match="torn"):
        await shared.get()
