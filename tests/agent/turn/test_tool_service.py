"""Other programs can list, call and cancel the tools, and their calls are recorded."""

from pathlib import Path
from typing import Any

import aiosqlite
import anyio

from nekro_core.agent.turn.tool_service import NO_CHAT, AgentToolService
from nekro_core.chat import Author
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.tools.content import ImageContent, TextContent
from tests.agent.bot import LIN, kind_of, running_bot
from tests.agent.conftest import BoxCache
from tests.agent.native import NOTHING
from tests.agent.turn.test_tool_kinds import TOOLS, look

EIGHT = [
    "shell", "read_file", "write_file", "glob", "browse", "sandbox_create", "sandbox_list",
    "transfer",
]  # fmt: skip


@kind_of("tool", needs_chat=False)
async def double(_ctx: AgentCtx, number: int) -> int:
    """Double a number.

    Args:
        number: The number.
    """
    return number * 2


@kind_of("behavior", needs_chat=False)
async def think(_ctx: AgentCtx) -> str:
    """Think."""
    return "thought"


def text_of(answer: Any) -> str:
    return "".join(part.text for part in answer.content if isinstance(part, TextContent))


async def test_without_a_chat_only_box_tools_and_tools_that_need_no_chat_are_listed(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([NOTHING])
    async with running_bot(folder, boxes, model, tools=[*TOOLS, double, think]) as bot:
        service = AgentToolService(bot.services)
        assert [tool.name for tool in await service.tools(None)] == [*EIGHT, "double", "think"]
        in_chat = [tool.name for tool in await service.tools(LIN)]
        assert in_chat[:9] == [*EIGHT, "send_channel_message"]
        assert text_of(await service.call(None, "double", {"number": 21})) == "42"
        assert text_of(await service.call(None, "think", {})) == "thought"
        assert not await bot.store.messages.newest(NO_CHAT, 5)
        refused = await service.call(None, "send_channel_message", {"text": "hi"})
        assert refused.is_error
        assert "unknown_tool" in text_of(refused)
        assert bot.said() == []


async def test_calls_without_a_chat_use_another_box_than_the_box_of_a_chat(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([NOTHING])) as bot:
        service = AgentToolService(bot.services)
        written = await service.call(LIN, "write_file", {"path": "a.txt", "content": "of Lin"})
        assert not written.is_error
        assert '"of Lin"' in text_of(await service.call(LIN, "read_file", {"path": "a.txt"}))
        missing = await service.call(None, "read_file", {"path": "a.txt"})
        assert missing.is_error
        assert "not_found" in text_of(missing)


async def test_calls_in_a_chat_are_recorded(folder: Path, boxes: BoxCache) -> None:
    async with running_bot(folder, boxes, ScriptedModel([NOTHING]), tools=TOOLS) as bot:
        service = AgentToolService(bot.services)
        said = await service.call(LIN, "send_channel_message", {"text": "hello"})
        assert text_of(said) == "sent"
        assert bot.said() == ["hello"]
        (record,) = [r for r in await bot.store.messages.newest(LIN, 5) if r.author is Author.BOT]
        run = await bot.store.runs.get(record.run_id)
        assert run is not None
        assert (run.code, run.stop) == ("send_channel_message(text='hello')", "answered")
        (made,) = await bot.store.runs.calls(record.run_id)
        assert (made.name, made.outcome) == ("send_channel_message", "ok")
        wrong = await service.call(LIN, "add", {"first": "x"})
        assert wrong.is_error
        assert "expected int" in text_of(wrong)


async def test_a_picture_is_returned_as_image_content(folder: Path, boxes: BoxCache) -> None:
    async with running_bot(folder, boxes, ScriptedModel([NOTHING]), tools=[look]) as bot:
        words, picture = (await AgentToolService(bot.services).call(LIN, "look", {})).content
        assert words == TextContent("here it is")
        assert isinstance(picture, ImageContent)
        assert picture.mime == "image/png"


async def test_a_cancelled_call_ends_its_handler(folder: Path, boxes: BoxCache) -> None:
    begun = anyio.Event()
    runs: list[str] = []

    async def endless(_ctx: AgentCtx) -> str:
        """Never end."""
        runs.append(_ctx.run_id)
        begun.set()
        await anyio.sleep_forever()
        return ""

    async with running_bot(folder, boxes, ScriptedModel([NOTHING]), tools=[endless]) as bot:
        service = AgentToolService(bot.services)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(service.call, LIN, "endless", {})
            await begun.wait()
            tasks.cancel_scope.cancel()
        run = await bot.store.runs.get(runs[0])
        assert run is not None
        assert run.stop == "cancelled"
        assert len(await bot.store.runs.calls(runs[0])) == 1


async def test_calls_without_a_chat_are_recorded_too(folder: Path, boxes: BoxCache) -> None:
    async with running_bot(folder, boxes, ScriptedModel([NOTHING])) as bot:
        await AgentToolService(bot.services).call(None, "shell", {"command": "exit 3"})
    async with aiosqlite.connect(folder / "nekro.sqlite3") as database:
        query = "SELECT r.chat_key, code, stop, name, arguments, outcome FROM runs r, tool_calls"
        assert await database.execute_fetchall(query) == [
            (
                str(NO_CHAT),
                "shell(command='exit 3')",
                "answered",
                "shell",
                '{"command": "exit 3"}',
                "failed",
            )
        ]
