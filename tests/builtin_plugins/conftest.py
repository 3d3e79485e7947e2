"""Fixtures of the tests of the built-in plugins."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nekro_core.plugins.host.builtin import builtin_folder
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.speech.espeak import EspeakSpeaker
from nekro_core.tools.outcome import Outcome
from tests.plugins.world import GROUP, World

Call = Callable[..., Awaitable[Outcome]]


@pytest.fixture
async def world(tmp_path: Path):
    world = World(tmp_path)
    speaker = EspeakSpeaker()
    world.services = replace(world.services, speaker=speaker)
    yield world
    await speaker.aclose()


@pytest.fixture
async def run(world: World):
    """A function that calls a tool by its name, as the code of a reply does."""
    async with world.bot(builtin=builtin_folder("plugins")) as registry:

        async def run(name: str, *args: Any, **kwargs: Any) -> Outcome:
            tool = registry.tools_for(GROUP).resolve(name)
            assert tool is not None, f"no tool {name}"
            return await call_tool(tool, world.ctx(), args, kwargs)

        yield run
