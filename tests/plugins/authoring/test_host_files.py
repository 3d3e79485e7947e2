"""A plugin may send its own files from the host. A path that the model wrote never names a host
file."""

from pathlib import Path

import pytest

from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.tools.outcome import ToolCallFailed, ToolReturn
from tests.plugins.world import GROUP, World, plugin_source

TOOLS = """
import asyncio, os, tempfile
from pathlib import Path
from nekro_core.api.plugin import SandboxMethodType


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "send_it", "")
async def send_it(_ctx: AgentCtx, path: str) -> str:
    \"\"\"Send a file.\"\"\"
    await _ctx.send_file(path)
    return "sent"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "made_a_path", "")
async def made_a_path(_ctx: AgentCtx, way: str, path: str) -> str:
    \"\"\"Make a path from the text of the model, and use it in the given way.\"\"\"
    match way:
        case "read":
            return (await _ctx.fs.read(Path(path))).decode()
        case "send":
            await _ctx.send_file(Path(path))
        case "forward":
            return await _ctx.fs.fetch(await asyncio.to_thread(_ctx.fs.forward_file, Path(path)))
        case "mixed":
            return (await _ctx.fs.read(await _ctx.fs.mixed_forward_file(Path(path)))).decode()
    return "sent"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "send_own", "")
async def send_own(_ctx: AgentCtx, name: str) -> str:
    \"\"\"Send a file of the plugin's folder.\"\"\"
    await _ctx.send_file(str(plugin.get_plugin_data_dir() / name))
    return "sent"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "send_fresh", "")
async def send_fresh(_ctx: AgentCtx) -> str:
    \"\"\"Send a file that the plugin has just made.\"\"\"
    with tempfile.NamedTemporaryFile(suffix=".txt", delete=False) as file:
        file.write(b"fresh")
    await _ctx.send_file(file.name)
    os.unlink(file.name)
    return await _ctx.fs.mixed_forward_file(b"x")


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "get", "")
async def get(_ctx: AgentCtx, path: str) -> str:
    \"\"\"Copy a file of the box to the host, and return its content.\"\"\"
    found = _ctx.fs.get_file(path)
    return found.read_text() if found.exists() else "nothing"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "get_apart", "")
async def get_apart(_ctx: AgentCtx, path: str) -> str:
    \"\"\"Call get_file in a thread, then in a task.\"\"\"
    found = await asyncio.to_thread(_ctx.fs.get_file, path)

    async def apart() -> None:
        _ctx.fs.get_file(path)

    await asyncio.create_task(apart())
    return found.read_text()


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "put", "")
async def put(_ctx: AgentCtx, text: str) -> str:
    \"\"\"Write two files into the shared folder, and call forward_file with one of them.\"\"\"
    (_ctx.fs.shared_path / "later.txt").write_text(text)
    now = _ctx.fs.shared_path / "now.txt"
    now.write_text(text)
    return _ctx.fs.forward_file(now)


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "elsewhere", "")
async def elsewhere(_ctx: AgentCtx, chat_key: str) -> str:
    \"\"\"Write to a chat that the model names.\"\"\"
    other = await AgentCtx.create_by_chat_key(chat_key)
    await other.send_text("psst")
    return "sent"
"""


async def called(world: World, tool: str, *args: str) -> ToolReturn | str:
    async with world.bot() as registry:
        found = registry.tools_for(GROUP).resolve(tool)
        assert found is not None
        outcome = await call_tool(found, world.ctx(services=registry.services), args)
        return outcome.message if isinstance(outcome, ToolCallFailed) else outcome


@pytest.fixture(autouse=True)
def plugin(world: World) -> Path:
    world.write("files.py", plugin_source("files", more=TOOLS))
    folder = world.data_dir / "plugin_data" / "ann.files"
    folder.mkdir(parents=True)
    (folder / "list.txt").write_text("mine")
    (folder / "config.yaml").write_text("KEY: secret")
    (folder / "kept.db").write_text("secret")
    return folder


async def test_a_path_from_the_model_is_not_read_on_the_host(world: World, plugin: Path) -> None:
    source = world.data_dir / "plugins" / "files.py"
    for path in (plugin / "list.txt", plugin / "config.yaml", source, Path("/etc/hostname")):
        assert "no such file" in str(await called(world, "send_it", str(path)))
    for name in ("config.yaml", "kept.db", "../ann.files/config.yaml", "../../plugins.list.json"):
        assert "no such file" in str(await called(world, "send_own", name))
    assert world.outgoing.sent == []
    await called(world, "send_own", "list.txt")
    assert world.outgoing.texts == ["[file: list.txt]"]


@pytest.mark.parametrize("way", ["read", "send", "forward", "mixed"])
@pytest.mark.parametrize("written", ["{}", " {}", "/{}", "{}/."])
async def test_a_path_built_from_the_models_text_is_not_read_on_the_host(
    world: World, tmp_path: Path, way: str, written: str
) -> None:
    secret = tmp_path / "host" / "secret.txt"
    secret.parent.mkdir()
    secret.write_text("of the host")
    outcome = await called(world, "made_a_path", way, written.format(secret))
    assert isinstance(outcome, str), outcome
    assert world.outgoing.sent == []
    assert b"of the host" not in world.box.files.values()


async def test_a_path_from_the_model_is_read_in_the_box(world: World) -> None:
    world.box.files["/home/user/a.txt"] = b"in the box"
    for way in ("read", "mixed"):
        outcome = await called(world, "made_a_path", way, "/home/user/a.txt")
        assert isinstance(outcome, ToolReturn)
        assert outcome.value == "in the box"


async def test_a_plugin_can_send_a_file_that_it_made(world: World) -> None:
    made = await called(world, "send_fresh")
    assert world.outgoing.texts != []
    assert isinstance(made, ToolReturn)
    assert world.box.files[made.value] == b"x"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("a.txt", "in the box"),
        ("/home/user/a.txt", "in the box"),
        ("/app/shared/a.txt", "in the box"),
        ("missing.txt", "nothing"),
        ("/app/uploads/missing.png", "nothing"),
        ("/etc/passwd", "expected a path below /app/shared"),
        ("../a.txt", "no '..'"),
        ("/app/uploads/../../../etc/passwd", "no '..'"),
        ("/app/uploads", "IsADirectory"),
    ],
)
async def test_a_plugin_can_copy_a_file_of_the_box_to_the_host(
    world: World, path: str, told: str
) -> None:
    world.box.files["/home/user/a.txt"] = b"in the box"
    (world.data_dir / "uploads" / GROUP.file_name).mkdir(parents=True)
    outcome = await called(world, "get", path)
    assert told in (outcome if isinstance(outcome, str) else outcome.value)


async def test_get_file_is_an_error_in_a_task_of_the_event_loop(world: World) -> None:
    world.box.files["/home/user/a.txt"] = b"in the box"
    assert "CannotWait" in str(await called(world, "get_apart", "a.txt"))


async def test_files_in_the_shared_folder_are_copied_into_the_box(world: World) -> None:
    assert await called(world, "put", "words") == ToolReturn("/app/shared/now.txt")
    assert world.box.files["/home/user/now.txt"] == b"words"
    assert world.box.files["/home/user/later.txt"] == b"words"


async def test_a_new_context_does_not_bypass_the_send_permission(world: World) -> None:
    told = await called(world, "elsewhere", "web-private_eve")
    assert "NEKRO_PLUGIN__MAY_SEND_ELSEWHERE" in str(told)
    assert world.outgoing.sent == []
    await called(world, "elsewhere", str(GROUP))
    assert world.outgoing.texts == ["psst"]
