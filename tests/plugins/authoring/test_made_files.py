"""A plugin can send a file by its path as text if the plugin made the file during the same call."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nekro_core.backup.contents import CONTENTS
from nekro_core.plugins.authoring.made_files import BOT_FOLDERS, is_made_now
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.tools.outcome import ToolCallFailed
from tests.plugins.world import GROUP, World, plugin_source

PAINTER = """
import os
from pathlib import Path
from nekro_core.api.plugin import SandboxMethodType


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "paint", "")
async def paint(_ctx: AgentCtx, base: str, name: str) -> str:
    \"\"\"Make a file in a folder of the plugin's choice, and send it.\"\"\"
    folder = Path(FOLDERS[base])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    if not path.exists():
        path.write_text("painted")
    await _ctx.send_file(str(path))
    return "sent"
"""


@pytest.fixture
def began() -> float:
    return time.time()


@pytest.fixture
def painter(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A plugin whose author has put pictures into several kinds of folders."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    data = world.data_dir
    folders = {
        "cache": data / "nbcache" / "music",
        "uploads": data / "uploads" / "ranks",
        "beside": data / "plugins" / "paint_cache",
        "working": Path("data", "out"),
        "secrets": data / "secrets",
        "root": data,
        "chat": data / "uploads" / "test-group_9",
        "other": data / "plugin_data" / "ann.other",
        "other plugin": data / "plugins" / "other",
        "hidden": data / "nbcache" / ".keys",
    }
    (data / "plugins" / "other").mkdir(parents=True)
    (data / "plugins" / "other" / "__init__.py").write_text("")
    shown = {name: str(folder) for name, folder in folders.items()}
    world.write("painter.py", plugin_source("painter", more=f"FOLDERS = {shown!r}\n{PAINTER}"))
    return world


async def paint(world: World, base: str, name: str) -> str:
    async with world.bot() as registry:
        tool = registry.tools_for(GROUP).resolve("paint")
        assert tool is not None
        outcome = await call_tool(tool, world.ctx(services=registry.services), (base, name))
    return outcome.message if isinstance(outcome, ToolCallFailed) else "sent"


@pytest.mark.parametrize("base", ["cache", "uploads", "beside", "working"])
async def test_a_file_that_a_plugin_made_during_the_call_is_sent(painter: World, base: str) -> None:
    assert await paint(painter, base, "a.txt") == "sent"
    assert painter.outgoing.texts == ["[file: a.txt]"]


@pytest.mark.parametrize("base", ["secrets", "root", "chat", "other", "other plugin", "hidden"])
async def test_a_file_in_a_folder_of_the_bot_or_of_others_is_not_sent(
    painter: World, base: str
) -> None:
    assert "no such file" in await paint(painter, base, "a.txt")
    assert painter.outgoing.sent == []


@pytest.mark.parametrize("base", ["cache", "working"])
async def test_a_file_from_before_the_call_is_not_sent(painter: World, base: str) -> None:
    assert await paint(painter, base, "a.txt") == "sent"
    for path in (painter.data_dir / "nbcache" / "music", Path("data", "out")):
        if (path / "a.txt").exists():
            os.utime(path / "a.txt", (0, 0))
    assert "no such file" in await paint(painter, base, "a.txt")


@pytest.mark.parametrize(
    "name",
    ["../../secrets/key", "../../plugin_data/ann.other/x.txt", "../../nekro.sqlite3", "link.txt"],
)
async def test_a_file_name_from_the_model_cannot_lead_to_another_folder(
    painter: World, name: str
) -> None:
    target = painter.data_dir / "nbcache" / "music" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if name == "link.txt":
        (painter.data_dir / "secrets").mkdir(exist_ok=True)
        (painter.data_dir / "secrets" / "key").write_text("secret")
        target.symlink_to(painter.data_dir / "secrets" / "key")
    assert "no such file" in await paint(painter, "cache", name)
    assert painter.outgoing.sent == []


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", f"/proc/{os.getpid()}/environ"], ids=["self", "number"]
)
def test_files_of_the_system_do_not_count_as_made_by_a_plugin(
    tmp_path: Path, began: float, path: str
) -> None:
    assert not is_made_now(Path(path).resolve(), path, tmp_path, began)


def test_the_working_folder_may_not_be_the_whole_machine(
    tmp_path: Path, began: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    path = f"/proc/{os.getpid()}/environ"
    assert not is_made_now(Path(path), path, tmp_path, began)


def test_every_folder_that_the_bot_backs_up_or_leaves_out_is_known() -> None:
    first: Callable[[str], str] = lambda pattern: pattern.partition("/")[0]  # noqa: E731
    folders = {first(each.pattern) for each in CONTENTS if "." not in first(each.pattern)}
    assert folders - BOT_FOLDERS == {"owner_of_boxes"}, (
        "this is a file; a new folder must be added to BOT_FOLDERS"
    )
