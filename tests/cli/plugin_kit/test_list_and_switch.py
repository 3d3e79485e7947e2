"""``nekro plugin list`` shows the plugins, and ``on`` and ``off`` switch them."""

from contextvars import Context
from pathlib import Path

import anyio
import pytest

from nekro_core.cli import main
from tests.plugins.world import World, plugin_source


def test_the_command_list_shows_plugins_and_on_or_off_switches_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path)
    monkeypatch.setenv("NEKRO_DATA_DIR", str(world.data_dir))
    monkeypatch.chdir(world.data_dir)

    async def a_run() -> list[str]:
        async with world.bot() as registry:
            return [info.state.value for info in registry.plugins()]

    # `main` runs in a new context, because the test's own context holds a running event loop.
    def command(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        status = Context().run(main, ["plugin", *words])
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    assert command("list") == (0, "there is no plugin here, and no bot has run here yet\n")
    world.write("a.py", plugin_source("a", "f"))
    world.write("b.py", "def broken(:")
    status, text = command("list")
    assert (status, text.splitlines()[0]) == (0, "new       ann.a 1  f")
    assert "new       local/b" in text
    assert "cannot be read: b.py: invalid syntax" in text
    assert Context().run(anyio.run, a_run) == ["loaded", "broken"]
    status, text = command("list")
    assert status == 0
    assert "loaded    ann.a 1  f" in text
    assert "broken    local/b" in text
    assert "b.py:1: SyntaxError" in text
    assert "new  " not in text
    world.write("later/__init__.py", plugin_source("later", "g"))
    assert "new       ann.later 1  g" in command("list")[1]
    (world.data_dir / "plugins" / "later" / "__init__.py").unlink()
    assert command("off", "ann.a") == (0, "local/a is off; a bot that runs follows at once\n")
    assert Context().run(anyio.run, a_run) == ["disabled", "broken"]
    assert command("on", "local/a")[0] == 0
    assert Context().run(anyio.run, a_run) == ["loaded", "broken"]
    for name in ("nothing", ""):
        status, text = command("off", name)
        assert status == 1
        assert f"there is no plugin {name!r}; there are ann.a, local/b" in text
