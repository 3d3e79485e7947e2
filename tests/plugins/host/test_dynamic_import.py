"""The code of a plugin requests a package, while the plugin is imported or while a handler runs."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from nekro_core.plugins.host.listing import PluginState
from nekro_core.plugins.host.switches import read_list
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.plugins.packages import PackageFolder
from nekro_core.plugins.packages.requirements import PluginRequirement, parse_requirement
from nekro_core.tools.outcome import ToolCallFailed, ToolReturn
from tests.plugins.packages.wheels import make_wheel, only_these
from tests.plugins.world import GROUP, World, plugin_source

AT_IMPORT = """
from nekro_core.api.plugin import dynamic_import_pkg

low = dynamic_import_pkg("nk_dynamic>=1", mirror="https://example.invalid/simple")
plugin.description = low.VERSION
"""
IN_HANDLER = '''
import asyncio

from nekro_core.api.plugin import dynamic_import_pkg

@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "version", "Say.")
async def version(_ctx: AgentCtx) -> str:
    """Say."""
    return dynamic_import_pkg("nk-dynamic", "nk_dynamic").VERSION


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "apart", "Say.")
async def apart(_ctx: AgentCtx) -> str:
    """Say, in a task."""
    return await asyncio.create_task(version(_ctx))
'''


@pytest.fixture
def packages(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PackageFolder]:
    only_these(tmp_path / "index", monkeypatch)
    make_wheel(tmp_path / "index", "nk_dynamic", "1.5")
    shelf = PackageFolder(world.data_dir)
    world.services = replace(world.services, packages=shelf)
    with shelf.on_path():
        yield shelf
    sys.modules.pop("nk_dynamic", None)


@pytest.mark.long
async def test_fetching_a_package_does_not_count_towards_the_import_limit(
    world: World, packages: PackageFolder
) -> None:
    world.write("a.py", plugin_source("a", "f", more=AT_IMPORT))
    async with world.bot(import_s=0.5) as registry:
        (info,) = registry.plugins()
        assert (info.state, info.description) == (PluginState.LOADED, "1.5"), info.problems
    assert packages.needs == {"local/a": ["nk_dynamic>=1"]}


@pytest.mark.long
async def test_a_newer_version_of_a_package_in_use_waits_for_the_next_start(
    world: World, packages: PackageFolder, tmp_path: Path
) -> None:
    world.write("a.py", plugin_source("a", "f", more=AT_IMPORT))
    async with world.bot() as registry:
        make_wheel(tmp_path / "index", "nk_dynamic", "2.0")
        # `nekro plugin install` would do this in another process.
        newer = [PluginRequirement(parse_requirement("nk_dynamic>=2"), "local/a")]
        PackageFolder(world.data_dir).ensure("local/a", newer)
        await registry.load_all()
        (info,) = registry.plugins()
        assert [str(problem) for problem in info.problems] == [
            "nk-dynamic 1.5 runs, 2.0 is there: it changes at the next start"
        ]
        assert "changes at the next start" in str(read_list(world.data_dir)[0].problems)
        (told,) = registry.at_next_start
        assert told == "nk-dynamic 1.5 runs, 2.0 is there: it changes at the next start"


@pytest.mark.long
async def test_a_handler_waits_for_a_package_without_blocking_the_event_loop(
    world: World, packages: PackageFolder
) -> None:
    world.write("a.py", plugin_source("a", more=IN_HANDLER))
    async with world.bot() as registry:
        tool = registry.tools_for(GROUP).resolve("version")
        assert tool is not None
        beats = 0
        async with anyio.create_task_group() as tasks:

            async def beat() -> None:
                nonlocal beats
                while True:
                    await anyio.sleep(0.01)
                    beats += 1

            tasks.start_soon(beat)
            assert await call_tool(tool, world.ctx()) == ToolReturn("1.5")
            tasks.cancel_scope.cancel()
        assert beats > 5


@pytest.mark.long
async def test_a_task_of_a_handler_gets_an_error_until_the_package_is_there(
    world: World, packages: PackageFolder
) -> None:
    world.write("a.py", plugin_source("a", more=IN_HANDLER))
    async with world.bot() as registry:
        tool = registry.tools_for(GROUP).resolve("apart")
        assert tool is not None
        first = await call_tool(tool, world.ctx())
        assert isinstance(first, ToolCallFailed)
        assert "nk-dynamic is being fetched for local/a" in first.message
        with anyio.fail_after(60):
            while not isinstance(answer := await call_tool(tool, world.ctx()), ToolReturn):
                assert isinstance(answer, ToolCallFailed)
                await anyio.sleep(0.1)
        assert answer == ToolReturn("1.5")


@pytest.mark.long
async def test_a_package_that_cannot_be_fetched_is_a_problem_of_the_plugin(
    world: World, packages: PackageFolder
) -> None:
    world.write("a.py", plugin_source("a", "f", more=AT_IMPORT.replace(">=1", ">=9")))
    async with world.bot() as registry:
        (info,) = registry.plugins()
        assert info.state is PluginState.BROKEN
        assert "local/a needs nk_dynamic>=9, and the package index has nothing" in str(
            info.problems[0]
        )
