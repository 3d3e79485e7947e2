"""A chat's shared folder has a quota. Old files are deleted to keep it, and new files above it are
refused."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nekro_core.plugins.authoring.host_files import SharedFolderQuota
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.tools.outcome import Outcome, ToolCallFailed, ToolFailure
from tests.plugins.world import GROUP, World, plugin_source

TOOLS = """
from nekro_core.api.plugin import SandboxMethodType, ToolFailure


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "fill", "")
async def fill(_ctx: AgentCtx, name: str, size: int, then: str = "") -> str:
    \"\"\"Write into the shared folder.\"\"\"
    (_ctx.fs.shared_path / name).write_bytes(b"x" * size)
    if then == "fail":
        raise ToolFailure("as always")
    return "written"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "get", "")
async def get(_ctx: AgentCtx, path: str) -> int:
    \"\"\"Copy a file of the box to the host, and return its size.\"\"\"
    return _ctx.fs.get_file(path).stat().st_size
"""


@pytest.fixture(autouse=True)
def shared(world: World) -> Path:
    world.write("files.py", plugin_source("files", more=TOOLS))
    return world.data_dir / "plugin_files" / GROUP.file_name / "shared"


async def called(world: World, tool: str, *args: object) -> Outcome:
    async with world.bot() as registry:
        found = registry.tools_for(GROUP).resolve(tool)
        assert found is not None
        ctx = world.ctx(services=replace(registry.services, shared_bytes=1000))
        return await call_tool(found, ctx, args)


def age(folder: Path) -> None:
    old = time.time() - 3600
    for path in folder.rglob("*"):
        os.utime(path, (old, old))


def told(outcome: Outcome) -> str:
    assert isinstance(outcome, ToolCallFailed), outcome
    return outcome.message


async def test_files_beyond_the_quota_are_reported_and_deleted(world: World, shared: Path) -> None:
    assert not isinstance(await called(world, "fill", "small.bin", 400), ToolCallFailed)
    message = told(await called(world, "fill", "big.bin", 900))
    assert "holds 1300 bytes in 2 files and folders" in message
    assert "at most 1000 bytes" in message
    assert "NEKRO_PLUGIN__SHARED_BYTES" in message
    assert [path.name for path in shared.iterdir()] == ["small.bin"]
    assert set(world.box.files) == {"/home/user/small.bin"}


async def test_a_failing_tool_cannot_fill_the_folder_beyond_the_quota(
    world: World, shared: Path
) -> None:
    assert "as always" in told(await called(world, "fill", "one.bin", 900, "fail"))
    assert "as always" in told(await called(world, "fill", "two.bin", 900, "fail"))
    for name in ("three.bin", "four.bin"):
        assert "at most 1000 bytes" in told(await called(world, "fill", name, 900, "fail"))
    assert {path.name for path in shared.iterdir()} == {"one.bin", "two.bin"}
    age(shared)
    assert not isinstance(await called(world, "fill", "five.bin", 900), ToolCallFailed)
    assert [path.name for path in shared.iterdir()] == ["five.bin"]


async def test_old_copies_of_box_files_are_deleted_for_new_ones(world: World, shared: Path) -> None:
    for number in range(4):
        world.box.files[f"/home/user/{number}.bin"] = b"x" * 400
    for number in range(2):
        assert not isinstance(await called(world, "get", f"{number}.bin"), ToolCallFailed)
    assert "400 bytes more are wanted" in told(await called(world, "get", "2.bin"))
    assert not isinstance(await called(world, "get", "1.bin"), ToolCallFailed), (
        "the copy of this file is there already"
    )
    age(shared)
    for number in (2, 3):
        assert not isinstance(await called(world, "get", f"{number}.bin"), ToolCallFailed)
    assert {path.name for path in shared.iterdir()} == {"2.bin", "3.bin"}
    assert len(world.box.files) == 4


def test_folders_and_links_are_counted_and_deleted(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("x" * 5000)
    room = SharedFolderQuota(tmp_path / "shared", most_bytes=1000, most_entries=3)
    room.make(10)
    for number in range(3):
        (room.folder / f"a{number}" / "b").mkdir(parents=True)
        (room.folder / f"a{number}" / "c").symlink_to(outside)
    with pytest.raises(ToolFailure, match="9 files and folders"):
        room.make()
    age(room.folder)
    for path in room.folder.rglob("c"):
        os.utime(path, (0, 0), follow_symlinks=False)
    # Deleting the last file of a folder makes the folder new again. So each round needs new ages.
    for _ in range(3):
        room_made(room)
        age(room.folder)
    room.make()
    assert outside.exists()
    assert len(list(room.folder.rglob("*"))) <= 3


def room_made(room: SharedFolderQuota) -> None:
    try:
        room.make()
    except ToolFailure:
        return
