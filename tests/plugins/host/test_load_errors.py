"""A broken plugin is reported with file, line and remedy. Other plugins are loaded."""

import sys
import threading

import anyio
import pytest

from nekro_core.plugins.host.listing import PluginState
from tests.plugins.world import GROUP, World, plugin_source

GOOD = plugin_source("good", "fine")
LINES = GOOD.count("\n")
CONFIG = '''
from nekro_core.api.plugin import ConfigBase

@plugin.mount_config()
class Config(ConfigBase):
    """No default."""
    needed: int
'''


@pytest.mark.parametrize(
    ("source", "line", "told", "remedy"),
    [
        ("def broken(:\n", 1, "SyntaxError", "correct this line"),
        ("x = 1\n\n  y = 2\n", 3, "IndentationError: unexpected indent", "correct this line"),
        ("import not_there_at_all\n", 1, "No module named 'not_there_at_all'", "name its package"),
        ("from json import nothing\n", 1, "cannot import name 'nothing'", "correct the name"),
        ("\n\nx = 1 / 0\n", 3, "ZeroDivisionError: division by zero", "correct this line"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3", "correct this line"),
        ("raise KeyboardInterrupt\n", 1, "KeyboardInterrupt", "correct this line"),
        ("import asyncio\nraise asyncio.CancelledError\n", 2, "CancelledError", "correct"),
        ("x = 1\n", 1, "has no 'plugin'", "write plugin = NekroPlugin("),
        ("plugin = 5\n", 1, "has a 'plugin' of int", "write plugin = NekroPlugin("),
        (GOOD.replace('"good"', '"not good"'), 5, "module_name 'not good'", "correct this line"),
        (GOOD.replace('"good"', '"class"'), 5, "is a word of Python", "correct this line"),
        (GOOD + "import time\ntime.sleep(3)\n", LINES + 2, "took over 2 s", "mount_init_method"),
        (
            GOOD + "@plugin.mount_init_method()\nasync def init():\n    raise KeyError('x')\n",
            LINES + 3,
            "KeyError: 'x'",
            "correct this line",
        ),
        (
            GOOD
            + "import anyio\n@plugin.mount_init_method()\nasync def init():\n"
            + "    await anyio.sleep(60)\n",
            LINES + 2,
            "its init method took over 2 s",
            "a time limit",
        ),
        (GOOD + CONFIG, LINES + 4, "needed: Field required", "correct this line"),
        ("\x00", 1, "source code string cannot contain null bytes", "correct this line"),
        ("x = '\udc80'", 1, "", ""),
    ],
)
async def test_a_load_error_has_its_place_and_its_remedy(
    world: World, source: str, line: int, told: str, remedy: str
) -> None:
    path = world.data_dir / "plugins" / "bad.py"
    path.parent.mkdir()
    path.write_bytes(source.encode(errors="surrogateescape"))
    world.write("good.py", GOOD)
    limit = 2 if "sleep" in source else 30  # the good plugin has to be loaded within it too
    async with world.bot(import_s=limit, init_s=limit) as registry:
        bad, good = registry.plugins()
        assert good.state is PluginState.LOADED
        assert registry.tools_for(GROUP).resolve("fine") is not None
    assert bad.state is PluginState.BROKEN
    (problem,) = bad.problems
    assert told in problem.message
    assert problem.where == f"{path}:{line}"
    assert remedy in problem.remedy
    assert not [name for name in sys.modules if name.endswith(".bad")]


SWALLOWS = """
try:
    from .inner import plugin
except ImportError as error:
    print(error)
    plugin = None
try:
    import nk_faster as json
except ImportError:
    import json
"""


@pytest.mark.parametrize(
    ("init", "inner", "told", "place", "remedy"),
    [
        (SWALLOWS, "import nk_missing", "No module named 'nk_missing'", "inner.py:1", "install"),
        (SWALLOWS, "\nfrom json import no", "cannot import name 'no'", "inner.py:2", "the name"),
        (
            "try:\n    from .inner import plugin\nexcept Exception:\n    pass",
            "x = 1 / 0",
            "ZeroDivisionError: division by zero",
            "inner.py:1",
            "correct this line",
        ),
        ("plugin = None", "", "the module has no 'plugin'", "__init__.py:1", "write plugin ="),
    ],
)
async def test_if_the_plugin_object_is_missing_an_error_that_the_module_caught_is_named(
    world: World, init: str, inner: str, told: str, place: str, remedy: str
) -> None:
    world.write("bad/__init__.py", init)
    world.write("bad/inner.py", inner)
    async with world.bot() as registry:
        (bad,) = registry.plugins()
    (problem,) = bad.problems
    assert problem.message.startswith("the module has no 'plugin'")
    assert told in problem.message
    assert ("No module named 'nk_faster' at " in problem.message) == (init is SWALLOWS)
    assert problem.where == f"{world.data_dir / 'plugins' / 'bad' / place}"
    assert remedy in problem.remedy
    assert not [name for name in sys.modules if ".bad" in name]


async def test_an_error_in_an_inner_module_has_that_modules_line(world: World) -> None:
    world.write("deep/inner.py", "\n\nraise ValueError('inside')\n")
    world.write("deep/__init__.py", GOOD + "from . import inner\n")
    async with world.bot() as registry:
        (info,) = registry.plugins()
    assert info.problems[0].where == f"{world.data_dir / 'plugins' / 'deep' / 'inner.py'}:3"


async def test_an_endless_import_is_stopped(world: World) -> None:
    world.write("a.py", "while True:\n    pass\n")
    async with world.bot(import_s=0.3) as registry:
        (info,) = registry.plugins()
    assert info.problems[0].message == "its import took over 0.3 s"
    with anyio.fail_after(30):
        while any(thread.name == "import of local/a" for thread in threading.enumerate()):
            await anyio.sleep(0.01)


async def test_a_repaired_plugin_can_be_enabled(world: World) -> None:
    world.write("a.py", "def broken(:")
    async with world.bot() as registry:
        (info,) = registry.plugins()
        assert info.state is PluginState.BROKEN
        world.write("a.py", GOOD)
        assert (await registry.enable("local/a")).state is PluginState.LOADED


async def test_of_two_plugins_with_one_key_only_the_first_is_loaded(world: World) -> None:
    world.write("a.py", GOOD)
    world.write("b.py", GOOD)
    async with world.bot() as registry:
        first, second = registry.plugins()
        assert (first.state, second.state) == (PluginState.LOADED, PluginState.BROKEN)
        assert "its key ann.good is that of local/a" in second.problems[0].message
        await registry.disable("local/a")
        assert (await registry.enable("local/b")).state is PluginState.LOADED


REFUSED = """
@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "sync", "")
def sync(_ctx: AgentCtx) -> str:
    return ""

@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "lost", "")
async def lost(text: str) -> str:
    return ""
"""


async def test_a_refused_handler_does_not_prevent_the_other_handlers(world: World) -> None:
    world.write("a.py", GOOD + REFUSED)
    async with world.bot() as registry:
        (info,) = registry.plugins()
        assert info.state is PluginState.LOADED
        assert [tool.name for tool in info.tools] == ["fine"]
        assert [problem.message.split(":")[0] for problem in info.problems] == [
            "sync is not async",
            "lost does not take the context",
        ]
        assert info.problems[0].where.endswith(f"a.py:{LINES + 2}")


async def test_a_cleanup_that_hangs_or_fails_does_not_stop_the_end_of_the_bot(world: World) -> None:
    hangs = (
        "import anyio\n@plugin.mount_cleanup_method()\nasync def c():\n    await anyio.sleep(60)\n"
    )
    fails = "@plugin.mount_cleanup_method()\nasync def c():\n    raise ValueError\n"
    world.write("a.py", plugin_source("a", "f", more=hangs))
    world.write("b.py", plugin_source("b", "g", more=fails))
    async with world.bot(cleanup_s=0.2) as registry:
        assert len(registry.tools_for(GROUP).named) == 2
    assert registry.tools_for(GROUP).named == ()
