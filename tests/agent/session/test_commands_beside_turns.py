"""Commands in a chat can run while a turn runs, and they start no turn."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio

from nekro_core.llm.scripted import ScriptedModel
from nekro_core.plugins.authoring.commands import Command, CommandExecutionContext
from tests.agent.bot import GROUP, LIN, LONG, Bot, fence, running_bot
from tests.agent.conftest import BoxCache
from tests.agent.session.test_sessions import answer, until


def count_calls(bot: Bot) -> list[str]:
    """Add a command ``/echo``. Returns a list that gets a line for each call of the command."""
    calls: list[str] = []

    async def echo(context: CommandExecutionContext, text: str = "") -> str:
        calls.append(f"{context.chat_key} {context.user_id}: {text}")
        return f"you said {text}"

    bot.commands.book.add_builtin(Command(name="echo", handler=echo, description="Say it."))
    return calls


async def test_a_command_never_wakes_the_agent(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([answer("hello")])
    async with running_bot(folder, boxes, model) as bot:
        calls = count_calls(bot)
        await bot.say("/echo one")
        await bot.say("/echo two", GROUP)
        await until(lambda: len(bot.said()) == len(bot.said(GROUP)) == 1)
        assert bot.said() == ["you said one"]
        assert sorted(calls) == ["fake-group_30003 lin: two", "fake-private_lin lin: one"]
        assert await bot.ask("hi") == ["hello"]
        prompt = bot.prompt()
        assert "/echo one" in prompt, "the model sees what was typed"
        assert "you said one" in prompt
        assert "Answer 2" not in prompt, "the model must not be asked to answer the command"


async def test_a_command_runs_during_a_turn_and_during_a_wait(
    folder: Path, boxes: BoxCache
) -> None:
    release = anyio.Event()

    async def slow() -> AsyncIterator[str]:
        await release.wait()
        yield answer("both")

    model = ScriptedModel([slow()])
    async with running_bot(folder, boxes, model, trigger=LONG) as bot:
        count_calls(bot)
        async with bot.turn():
            await bot.say("first")
            await bot.say("/echo now")
            await until(lambda: bot.said() == ["you said now"])
            await bot.say("second")
            bot.typed()
            await until(lambda: bool(model.requests))
            await bot.say("/echo again")
            await until(lambda: bot.said() == ["you said now", "you said again"])
            release.set()
        assert bot.said()[2:] == ["both"]
        assert bot.prompt().count(" NEW\n") == 2
        assert len(model.requests) == 1


async def test_a_command_is_not_run_again_after_a_restart(folder: Path, boxes: BoxCache) -> None:
    async with running_bot(folder, boxes, ScriptedModel([]), trigger=LONG) as bot:
        calls = count_calls(bot)
        await bot.say("/echo quiet")
        await until(lambda: len(bot.said()) == 1)
        await until(lambda: bot.commands.at_work == 0)
        await bot.say("what is this?")
        await bot.say("/echo busy")
        await until(lambda: len(calls) == 2)
    async with running_bot(folder, boxes, ScriptedModel([answer("tea")])) as bot:
        assert count_calls(bot) == []
        await bot.sessions.recover()
        await until(lambda: bot.said() == ["tea"])
        await bot.settled()
        assert "Answer 2" not in bot.prompt()
        assert calls == [f"{LIN} lin: quiet", f"{LIN} lin: busy"]


async def test_a_chat_with_only_commands_has_nothing_to_answer(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([])) as bot:
        count_calls(bot)
        await bot.say("/echo hello")
        await until(lambda: len(bot.said()) == 1)
        with anyio.fail_after(30):
            while await bot.store.turns.unanswered(since=0):
                await anyio.sleep(0.005)


async def test_the_command_stop_keeps_questions_after_it(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([answer("two")])
    async with running_bot(folder, boxes, model, trigger=LONG) as bot:
        await bot.say("one")
        await bot.say("/stop")
        async with bot.turn():
            await bot.say("two?")
            await until(lambda: bot.said() == ["Stopped."])
            bot.typed()
        assert bot.said() == ["Stopped.", "two"]
        assert "Answer 2" not in bot.prompt()


async def test_help_is_answered_while_a_turn_runs(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([answer("one") + "\n" + fence("while True: pass")])
    async with running_bot(folder, boxes, model) as bot:
        await bot.say("go")
        await until(lambda: bool(bot.said()))
        await bot.say("/help")
        await until(lambda: len(bot.said()) == 2)
        assert "/stop: Stop what I am doing." in bot.said()[1]
        async with bot.turn():
            await bot.say("/stop")
        await until(lambda: bot.said()[-1] == "Stopped.")


async def test_a_message_that_a_nonebot_plugin_answered_starts_neither_turn_nor_command(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([]), trigger=LONG) as bot:
        calls = count_calls(bot)
        await bot.say("/echo 3d6", answered_elsewhere=True)
        await bot.say("roll the dice", answered_elsewhere=True)
    model = ScriptedModel([answer("11 is a lot")])
    async with running_bot(folder, boxes, model) as bot:
        again = count_calls(bot)
        await bot.sessions.recover()
        assert await bot.ask("did you see?") == ["11 is a lot"]
        prompt = bot.prompt()
        assert "> roll the dice" in prompt, (
            "the agent sees the message that the other plugin answered"
        )
        assert prompt.count(" NEW\n") == 1
        assert calls == again == []
