"""Defines a caller of the tools and the source of its boxes."""

import json
from dataclasses import replace
from typing import Any

from nekro_core.sandbox.box import Backend, Box, BoxSpec, ImageUnavailable
from nekro_core.sandbox.named import NamedBoxes
from nekro_core.sandbox.tools import SandboxPool, handle_tool_call
from tests.sandbox.conftest import SMALL

IMAGES = {"python": "python", "node:22": "python"}
"""Two names for the one image that every backend has. The tests do not depend on its contents."""


class Source:
    """Makes small boxes of a backend, and keeps a list of the boxes so that a test can destroy
    one."""

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


class ToolCaller:
    """A caller of the tools, with its own boxes."""

    def __init__(self, keeper: NamedBoxes, source: Source, owner: str) -> None:
        self.keeper = keeper
        self.source = source
        self.pool = SandboxPool(keeper.of(owner))

    async def __call__(self, tool: str, /, **given: Any) -> str:
        """Call a tool. Returns the content of the result, with ``isError`` before an error."""
        done = await handle_tool_call(self.pool, tool, given)
        return f"{'isError ' if done.is_error else ''}{done.content}"

    async def value(self, tool: str, /, **given: Any) -> dict[str, Any]:
        """Call a tool. Returns the decoded content of the result."""
        value: dict[str, Any] = json.loads((await self(tool, **given)).removeprefix("isError "))
        return value

    async def code(self, tool: str, /, **given: Any) -> str:
        """Call a tool that must fail. Returns the code of the error."""
        text = await self(tool, **given)
        assert text.startswith("isError "), text
        return str(json.loads(text.removeprefix("isError "))["error"]["code"])

    async def sleep(self) -> None:
        """Send all boxes to sleep."""
        for named in self.keeper.running:
            assert await named.sleep()
