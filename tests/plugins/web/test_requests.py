"""A webhook's request is parsed into a value without blocking the event loop."""

import anyio
from starlette.types import Message

from nekro_core.plugins.web.requests import read_request


async def test_parsing_a_large_form_does_not_block_the_event_loop() -> None:
    raw = b"name=value&" * 1_500_000  # 16 MB: parsing this form in the event loop took 1.5 s
    headers = [(b"content-type", b"application/x-www-form-urlencoded")]

    async def receive() -> Message:
        return {"type": "http.request", "body": raw}

    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.sleep(0.01)
            ticks += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        await anyio.sleep(0.05)
        scope = {"type": "http", "headers": headers, "query_string": b""}
        before = ticks
        found = await read_request("x", scope, receive)
        assert ticks > before + 5, "the event loop must run while the form is parsed"
        tasks.cancel_scope.cancel()
    assert found.body == {"name": "value"}
