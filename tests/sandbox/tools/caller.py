"""Somebody who calls the tools."""

import json
from dataclasses import replace
from typing import Any

from nekro_core.sandbox.box import Backend, Box, BoxSpec, ImageUnavailable
from nekro_core.sandbox.named import NamedBoxes
from nekro_core.sandbox.tools import SandboxPool, handle_tool_call
from tests.sandbox.conftest import SMALL

IMAGES = {"python": "python", "node:22": "python"}
"""Names for one image that every backend has: the contract is the same whatever is in it."""


class Source:
    """Fresh small boxes of a backend; those that were made can be killed."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.made: list[Box] = []

    async def take(self, image: str = "") -> Box:
        if image not in IMAGES:
            raise ImageUnavailable(image, sorted(IMAGES))
        spec: BoxSpec = replace(SMALL, template=IMAGES[image])
        box = await self.backend.create(spec)
        self.made.append(box)
        return box


class Hand:
    """Somebody who calls the tools on boxes of their own."""

    def __init__(self, keeper: NamedBoxes, source: Source, owner: str) -> None:
        self.keeper = keeper
        self.source = source
        self.pool = SandboxPool(keeper.of(owner))

    async def __call__(self, tool: str, /, **given: Any) -> str:
        """The content of the result, with a mark where it is an error."""
        done = await handle_tool_call(self.pool, tool, given)
        return f"{'isError ' if done.is_error else ''}{done.content}"

    async def value(self, tool: str, /, **given: Any) -> dict[str, Any]:
        """The content of the result, read."""
        value: dict[str, Any] = json.loads((await self(tool, **given)).removeprefix("isError "))
        return value

    async def code(self, tool: str, /, **given: Any) -> str:
        """The code of an error."""
        text = await self(tool, **given)
        assert text.startswith("isError "), text
        return str(json.loads(text.removeprefix("isError "))["error"]["code"])

    async def sleep(self) -> None:
        """All boxes fall asleep."""
        for named in self.keeper.running:
            assert await named.sleep()
