"""Broken plugins: the bot starts, says where the fault is and what to do, and the other plugins
work."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.e2e.whole_bot import WELL, WholeBot, fence, whole_bot

pytestmark = pytest.mark.long

HEAD = """\
from nekro_core.api.plugin import NekroPlugin, SandboxMethodType
from nekro_core.api.schemas import AgentCtx

plugin = NekroPlugin(name="{name}", module_name="{name}", author="ann")

"""
TOOL = """
@plugin.mount_sandbox_method(SandboxMethodType.{kind}, "{tool}", "")
async def {tool}(_ctx: AgentCtx) -> {returns}:
    {body}

"""


def tool(name: str, body: str, kind: str = "TOOL", returns: str = "str") -> str:
    return TOOL.format(tool=name, body=body, kind=kind, returns=returns)


BROKEN = {
    "syntax.py": ("def broken(:\n", "syntax.py:1: SyntaxError: invalid syntax (correct this line)"),
    "missing.py": ("\nimport not_there_at_all\n", "name its package in requirements.txt"),
    "wrong_name.py": ("from json import nothing\n", "correct the name that is imported"),
    "empty.py": ("", "write plugin = NekroPlugin("),
    "binary.py": ("\0\1\2", "null bytes"),
    "raises.py": (HEAD.format(name="raises") + "1 / 0\n", "ZeroDivisionError"),
    "leaves.py": ("import os, sys\nsys.exit(0)\n", "SystemExit"),
    "twin.py": (HEAD.format(name="good"), "its key ann.good is that of local/good"),
    "slow.py": ("import time\ntime.sleep(60)\n", "its import took over 1 s"),
}
"""Files that cannot be loaded, and words that the log has about them."""

GOOD = (
    HEAD.format(name="good")
    + tool("fine", "return 'fine'")
    + tool("shared", "return 'of good'")
    + tool("hangs", "import anyio\n    await anyio.sleep(3600)")
    + tool("blocks_awaiting", "await __import__('asyncio').Future()")
    + tool("blocks", "import time\n    time.sleep(1.5)\n    return 'at last'")
    + tool("wrong_type", "return 7", kind="BEHAVIOR")
    + tool("wrong_agent", "return {'not': 'text'}", kind="AGENT")
    + tool("wrong_parts", "return [{'type': 'image_url'}]", kind="MULTIMODAL_AGENT")
    + tool("raises", "raise OSError('/secret/path is gone')")
    + tool("leaves", "raise SystemExit(3)")
    + tool("interrupts", "raise KeyboardInterrupt")
    + tool("cancels", "raise __import__('asyncio').CancelledError")
    + tool("recurses", "return await recurses(_ctx)")
    + tool("unpicklable", "return lambda: 1", returns="object")
    + tool("generates", "return (n for n in range(3))", returns="object")
    + tool("enormous", "return 'x' * 40_000_000", returns="object")
    + tool("endless", "a = []; a.append(a); return a", returns="object")
)
HOOKS = (
    HEAD.format(name="hooks")
    + """
import anyio

@plugin.mount_prompt_inject_method("slow")
async def slow(_ctx: AgentCtx) -> str:
    await anyio.sleep(3600)
    return ""

@plugin.mount_on_user_message()
async def fails(_ctx: AgentCtx, message) -> None:
    raise ValueError("no opinion")
"""
    + tool("shared", "return 'of hooks'")
)
CALLS = {
    "fine": "fine",
    "hangs": "hangs took longer than 1 s and was stopped",
    "blocks_awaiting": "blocks_awaiting took longer than 1 s and was stopped",
    "blocks": "at last",
    "wrong_type": "wrong_type",
    "raises": "raises failed with OSError; the operator finds the details in the log",
    "leaves": "leaves failed with SystemExit",
    "interrupts": "interrupts failed with KeyboardInterrupt",
    "cancels": "cancels failed with CancelledError",
    "recurses": "recurses failed with RecursionError",
    "unpicklable": "lambda",
    "generates": "generates",
    "enormous": "enormous",
    "endless": "",
}
"""Maps the name of a function to a part of the value or of the error that the calling code gets."""


@pytest.fixture(scope="module")
async def whole(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WholeBot]:
    folder = tmp_path_factory.mktemp("plugins")
    plugins = folder / "data" / "plugins"
    plugins.mkdir(parents=True)
    for name, (source, _) in BROKEN.items():
        (plugins / name).write_text(source)
    (plugins / "good.py").write_text(GOOD)
    (plugins / "hooks.py").write_text(HOOKS)
    limits = {
        "NEKRO_PLUGIN__IMPORT_S": "1",
        "NEKRO_PLUGIN__TOOL_S": "1",
        "NEKRO_PLUGIN__PROMPT_S": "0.1",
        "NEKRO_PLUGIN__BLOCKS_S": "0.4",
    }
    async with whole_bot(folder, **limits) as whole:
        yield whole


async def test_the_log_names_file_line_and_remedy(whole: WholeBot) -> None:
    lines = [line for line in whole.bot.log.splitlines() if "is not loaded" in line]
    for name, (_, words) in BROKEN.items():
        item = f"local/{Path(name).stem}"
        (line,) = [line for line in lines if f"plugin {item} is not loaded" in line]
        assert words in line, line
        assert f"{whole.bot.data / 'plugins' / name}:" in line, line
    assert len(lines) == len(BROKEN)
    assert "tool name 'shared' is wanted by ann.good" in whole.bot.log


async def test_the_list_of_plugins_names_broken_plugins(whole: WholeBot) -> None:
    listed = (whole.bot.data / "plugins.list.json").read_text()
    for name in BROKEN:
        assert f"local/{Path(name).stem}" in listed
    states = [entry["state"] for entry in msgspec.json.decode(listed)]
    assert states.count("broken") == len(BROKEN)


async def test_plugins_without_a_fault_work_beside_broken_ones(whole: WholeBot) -> None:
    group = whole.group(fence("send_channel_message(fine())"))
    assert await whole.ask(group) == ["fine"]
    await whole.logged("slow")
    await whole.others_are_served()


@pytest.mark.parametrize("name", CALLS)
async def test_a_failing_handler_raises_an_error_in_the_calling_code(
    whole: WholeBot, name: str
) -> None:
    code = f"try:\n    print({name}())\nexcept ToolError as error:\n    print(error)"
    group = whole.group(fence(code))
    await whole.peer.say_in_group(group, 10001, "hello", at_me=True)
    await whole.others_are_served()
    assert await whole.answers(group) == [WELL]
    told = whole.prompts(group)[-1].last_user_text
    assert "[output]" in told
    assert CALLS[name] in told
    assert "/secret/path" not in told
    assert str(whole.bot.data) not in told


@pytest.mark.parametrize("name", ["wrong_agent", "wrong_parts"])
async def test_the_model_is_told_which_handler_returned_a_wrong_type(
    whole: WholeBot, name: str
) -> None:
    group = whole.group(fence(f"{name}()"))
    assert await whole.ask(group) == [WELL]
    told = whole.prompts(group)[-1].last_user_text
    assert "[error]" in told
    assert name in told


async def test_the_log_names_a_handler_that_blocks_the_event_loop(whole: WholeBot) -> None:
    group = whole.group(fence("send_channel_message(blocks())"))
    assert await whole.ask(group) == ["at last"]
    await whole.logged(f"called for onebot_v11-group_{group}, has blocked the event loop for")
    (line,) = [line for line in whole.bot.log.splitlines() if f"group_{group}, has blocked" in line]
    assert "ann.good's blocks (" in line
    source = whole.bot.data / "plugins" / "good.py"
    number = GOOD.splitlines().index("    time.sleep(1.5)") + 1
    await whole.logged(f"{source}:{number} in blocks")
    await whole.logged("the event loop goes on after")
