"""Built-in plugins are found by their path, whatever the working directory contains."""

from pathlib import Path

from nekro_core.plugins.host.builtin import builtin_folder, items_in
from nekro_core.plugins.host.listing import PluginState
from nekro_core.tools.problem import ProblemSeverity
from tests.plugins.world import GROUP, World


def test_files_and_packages_with_valid_names_are_plugins(tmp_path: Path) -> None:
    for name in ("a.py", "b/__init__.py", "c/other.py", "_d.py", ".e.py", "f.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert items_in(tmp_path) == ("a", "b")
    assert items_in(tmp_path / "nowhere") == ()


async def test_every_built_in_plugin_loads_without_a_problem(world: World) -> None:
    async with world.bot(builtin=builtin_folder("plugins")) as registry:
        plugins = {info.item: info for info in registry.plugins()}
        tools = registry.tools_for(GROUP)
    assert {"builtin/chat", "builtin/dice", "builtin/drawing", "builtin/voice"} <= set(plugins)
    for info in plugins.values():
        assert info.state is PluginState.LOADED, info.problems
        assert info.problems == (), info.problems
        assert info.tools
    assert tools.clashes == ()
    bare = {named.name for named in tools.named}
    assert {
        "send_channel_message",
        "send_image",
        "send_file",
        "view_image",
        "find_messages",
        "recent_messages",
        "send_tts_voice",
    } <= bare
    assert not any(
        problem.severity is ProblemSeverity.ERROR
        for info in plugins.values()
        for problem in info.problems
    )
