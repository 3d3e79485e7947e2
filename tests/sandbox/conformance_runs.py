"""The calls between code in a box and the bot, and the ends of runs.

Part of `tests.sandbox.conformance`.
"""

import re

import anyio
import pytest

from nekro_core.sandbox.box import (
    Answer,
    Box,
    CallFailure,
    CallReturn,
    EndRun,
    GuestCall,
    GuestFunction,
    GuestValue,
    StopReason,
)
from tests.sandbox.run_code import QUICK, Tools, play

FOR_SMALL_MODELS = (GuestValue("__time_zone__", ""),)


class RunConformance:
    """Needs the fixtures ``box`` (new for each test) and ``used_box`` (shared)."""

    # Calls and results

    async def test_code_calls_a_tool_and_continues_with_its_result(self, box: Box) -> None:
        tools = Tools({"roll": 17, "say": None})
        result = await play(
            box, "number = roll(sides=20)\nsay(f'You rolled {number}')", tools=tools
        )
        assert result.stop is StopReason.FINISHED, result
        assert tools.calls == [
            GuestCall(name="roll", args=(), kwargs={"sides": 20}),
            GuestCall(name="say", args=("You rolled 17",), kwargs={}),
        ]
        assert (result.calls, result.statements) == (2, 2)

    async def test_each_statement_runs_as_soon_as_it_has_been_sent(self, box: Box) -> None:
        said = anyio.Event()

        async def handler(call: GuestCall) -> Answer:
            said.set()
            return CallReturn(None)

        run = await box.start_run([GuestFunction(names=("say",))], handler, QUICK)
        await run.feed("say('hello')\n", 1)
        with anyio.fail_after(30):
            await said.wait()
        await run.feed("print('and more')\n", 2)
        result = await run.finish()
        assert (result.stop, result.output) == (StopReason.FINISHED, "and more\n")
        assert await run.finish() == await run.wait() == result

    @pytest.mark.parametrize(
        ("source", "count", "printed"),
        [
            ("print(1)", 1, "1\n"),
            ("  # nothing", 0, ""),
            ("\n", 0, ""),
            ("print(1); print('a;b')", 2, "1\na;b\n"),
            ("print('a;b')  # c", 1, "a;b\n"),
            ("if True: print(1); print(2)", 1, "1\n2\n"),
            ("print(1 + \\\n1)", 1, "2\n"),
            ("print(1)\rprint(2)", 2, "1\n2\n"),
            ("print(await tool())", 1, "5\n"),
            ("from __future__ import annotations", 1, ""),
            ("print(\n1)", 1, "1\n"),
        ],
    )
    async def test_a_result_has_the_number_of_statements_that_ran(
        self, used_box: Box, source: str, count: int, printed: str
    ) -> None:
        result = await play(used_box, source, tools=Tools({"tool": 5}))
        assert (result.stop, result.statements) == (StopReason.FINISHED, count), result
        assert result.output == printed

    async def test_a_failing_tool_raises_tool_error(self, box: Box) -> None:
        code = """
            try:
                send("x")
            except ToolError as error:
                print("no:", error)
            send("y")
        """
        result = await play(box, code, send=CallFailure("the chat is closed"))
        assert result.output == "no: the chat is closed\n"
        assert result.stop is StopReason.ERROR
        assert result.error.endswith("ToolError: the chat is closed")
        assert 'File "<reply>", line 6, in <module>\n    send("y")' in result.error

    async def test_an_ended_run_cannot_continue_whatever_it_catches(self, box: Box) -> None:
        code = """
            import threading, time
            def more():
                while True:
                    time.sleep(0.01)
                    send("from the thread")
            threading.Thread(target=more).start()
            while True:
                try:
                    look()
                except BaseException:
                    pass
                finally:
                    send("after the end")
        """
        tools = Tools({"look": lambda call: EndRun(), "send": None})
        with anyio.fail_after(30):
            result = await play(box, code, tools=tools)
        assert result.stop is StopReason.ENDED_BY_CALL
        assert ("after the end",) not in tools.asked
        seen = len(tools.calls)
        await anyio.sleep(0.1)
        assert len(tools.calls) == seen

    async def test_an_error_has_the_line_number_in_the_whole_reply(self, box: Box) -> None:
        tools = Tools({})
        run = await box.start_run([], tools.handle, QUICK)
        await run.feed("def broken(x):\n    return 1 / x\n", 41)
        await run.feed("broken(0)\n", 50)
        result = await run.finish()
        assert result.stop is StopReason.ERROR
        assert result.statements == 1
        assert "line 50, in <module>\n    broken(0)" in result.error
        assert "line 42, in broken\n    return 1 / x" in result.error
        assert result.error.endswith("ZeroDivisionError: division by zero")
        assert "guest_" not in result.error

    async def test_a_syntax_error_shows_its_line(self, box: Box) -> None:
        run = await box.start_run([], Tools({}).handle, QUICK)
        await run.feed("x = 1\n", 1)
        await run.feed("y = = 2\n", 7)
        result = await run.finish()
        assert result.stop is StopReason.ERROR
        assert 'File "<reply>", line 7\n    y = = 2\n' in result.error
        assert "SyntaxError" in result.error

    async def test_code_that_only_awaits_tools_imports_no_event_loop(self, used_box: Box) -> None:
        code = """
            import sys, types
            print(await tool(1), [await tool(2) for _ in range(2)], "oicnysa"[::-1] in sys.modules)

            @types.coroutine
            def twice():
                yield
                yield
                return "done"

            print(await twice(), "oicnysa"[::-1] in sys.modules)
        """
        result = await play(used_box, code, tool="ok")
        assert result.output == "ok ['ok', 'ok'] False\ndone False\n", result

    @pytest.mark.parametrize(
        "code",
        [
            "print(await tool(1))",
            "print(tool(1))",
            "import asyncio\nprint(await asyncio.gather(tool(1), tool(1)))",
            "import asyncio\nasync def f():\n    return await tool(1)\nprint(asyncio.run(f()))",
            "import asyncio\nprint(asyncio.run(tool(1)))",
            "import asyncio\nprint(await asyncio.wait_for(tool(1), 5))",
            "from asyncio import *\nasync def f():\n    print(await shield(tool(1)))\nawait f()",
            "async def f():\n    return await tool(1)\nprint([await f() for _ in range(2)])",
            "if __name__ == '__main__':\n    print(await tool(1))",
        ],
    )
    async def test_tools_may_be_awaited_or_not(self, used_box: Box, code: str) -> None:
        result = await play(used_box, code, tool="ok")
        assert result.stop is StopReason.FINISHED, result.error
        assert "ok" in result.output

    async def test_tools_have_dotted_names_and_help(self, box: Box) -> None:
        function = GuestFunction(
            names=("send_image", "chat.send_image"), signature="(path: str)", doc="Send a picture."
        )
        tools = Tools({"send_image": "sent"})
        run = await box.start_run([function], tools.handle, QUICK)
        code = (
            "print(chat.send_image('a'), send_image('b'))\n"
            "from chat import send_image as other\nprint(other('c'))\nhelp(send_image)\n"
            "try:\n    chat.nothing\nexcept AttributeError as error:\n    print(error)\n"
        )
        await run.feed(code, 1)
        result = await run.finish()
        assert [call.name for call in tools.calls] == ["send_image"] * 3
        assert "sent sent\nsent\n" in result.output
        assert "send_image(path: str)" in result.output
        assert "Send a picture." in result.output
        assert "chat has no function 'nothing'; it has: send_image" in result.output

    async def test_values_that_the_host_gives_to_a_run_are_globals_that_its_code_may_replace(
        self, used_box: Box
    ) -> None:
        values = [GuestValue("_ck", "a chat"), GuestFunction(names=("say",))]
        tools = Tools({"say": "said"})
        run = await used_box.start_run(values, tools.handle, QUICK)
        await run.feed("print(_ck, say(_ck))\n_ck = 'mine'\nprint(_ck)", 1)
        result = await run.finish()
        assert result.output == "a chat said\nmine\n"
        assert [tuple(call.args) for call in tools.calls] == [("a chat",)]

    async def test_threads_call_at_the_same_time(self, box: Box) -> None:
        both = anyio.Event()
        waiting = 0

        async def handler(call: GuestCall) -> Answer:
            nonlocal waiting
            waiting += 1
            if waiting == 2:
                both.set()
            await both.wait()
            return CallReturn(call.args[0] * 2)

        code = (
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(2) as pool:\n    print(list(pool.map(double, [1, 2])))\n"
        )
        run = await box.start_run([GuestFunction(names=("double",))], handler, QUICK)
        await run.feed(code, 1)
        with anyio.fail_after(30):
            result = await run.finish()
        assert result.output == "[2, 4]\n"

    async def test_runs_execute_one_after_another_and_share_files_but_not_globals(
        self, box: Box
    ) -> None:
        first = await box.start_run([], Tools({}).handle, QUICK)
        order: list[str] = []

        async def second() -> None:
            result = await play(box, "print(open('note').read(), 'x' in globals())")
            order.append(result.output)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(second)
            await first.feed("x = 1\nopen('note', 'w').write('kept')\n", 1)
            await anyio.sleep(0.05)
            order.append("first ends")
            await first.finish()
        assert order == ["first ends", "kept False\n"]

    async def test_a_failing_handler_is_a_tool_error_without_the_hosts_secrets(
        self, box: Box, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(call: GuestCall) -> Answer:
            raise RuntimeError("host secret")

        result = await play(box, "tool()", tool=fail)
        assert result.stop is StopReason.ERROR
        assert "host secret" not in result.error
        assert "host secret" in caplog.text

    async def test_sending_code_to_a_run_that_has_ended_does_nothing(self, box: Box) -> None:
        run = await box.start_run([], Tools({}).handle, QUICK)
        await run.feed("1/0\n", 1)
        result = await run.wait()
        await run.feed("print('late')\n", 2)
        assert await run.finish() == result
        assert await run.cancel() == result

    async def test_cancel_ends_the_run_and_its_open_calls(self, box: Box) -> None:
        started, cancelled = anyio.Event(), anyio.Event()

        async def handler(call: GuestCall) -> Answer:
            started.set()
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.set()
            raise AssertionError

        run = await box.start_run([GuestFunction(names=("slow",))], handler, QUICK)
        await run.feed("print('before')\nslow()\n", 1)
        await started.wait()
        with anyio.fail_after(30):
            result = await run.cancel()
            await cancelled.wait()
        assert (result.stop, result.output) == (StopReason.CANCELLED, "before\n")
        assert (await play(box, "print('next')")).output == "next\n"

    # How runs end

    @pytest.mark.parametrize(
        ("code", "words"),
        [
            ("import os\nos._exit(3)", "exit code 3"),
            ("import os\nos.abort()", "SIGABRT"),
            ("import ctypes\nctypes.string_at(0)", "SIGSEGV"),
            ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ],
    )
    async def test_a_run_that_died_names_the_cause_and_the_next_run_works(
        self, used_box: Box, code: str, words: str
    ) -> None:
        result = await play(used_box, f"print('last words')\n{code}")
        assert (result.stop, result.output) == (StopReason.DIED, "last words\n")
        assert words in result.error
        assert (await play(used_box, "print('next')")).output == "next\n"

    @pytest.mark.parametrize(
        ("code", "stop"),
        [
            ("exit()", StopReason.FINISHED),
            ("import sys\nsys.exit(0)", StopReason.FINISHED),
            ("import sys\nsys.exit('why')", StopReason.ERROR),
            ("raise KeyboardInterrupt", StopReason.ERROR),
            ("# nothing but a comment", StopReason.FINISHED),
            ("", StopReason.FINISHED),
        ],
    )
    async def test_each_way_to_end_code_gives_its_stop_reason(
        self, used_box: Box, code: str, stop: StopReason
    ) -> None:
        assert (await play(used_box, code)).stop is stop

    async def test_a_run_waits_for_its_threads_except_daemon_threads(self, box: Box) -> None:
        code = """
            import threading, time
            threading.Thread(target=lambda: (time.sleep(0.2), print("joined"))).start()
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        """
        with anyio.fail_after(30):
            assert (await play(box, code)).output == "joined\n"

    async def test_a_run_that_gets_no_code_ends(self, box: Box) -> None:
        run = await box.start_run([], Tools({}).handle, QUICK)
        assert (await run.finish()).stop is StopReason.FINISHED

    async def test_code_computes_with_dates_and_units(self, used_box: Box) -> None:
        tools = Tools({"say": None})
        code = "say(f\"{convert(5, 'miles', 'km')} {days_until('tomorrow')} {clock()}\")"
        result = await play(used_box, code, tools=tools, values=FOR_SMALL_MODELS)
        assert result.stop is StopReason.FINISHED, result
        ((text,),) = (call.args for call in tools.calls)
        assert re.fullmatch(r"8\.05 1 \d\d:\d\d", str(text))

    async def test_a_variable_or_tool_with_the_name_of_a_ready_made_function_replaces_it(
        self, used_box: Box
    ) -> None:
        tools = Tools({"say": None, "convert": "mine"})
        code = """
            weekday = "own"
            def sqrt(number):
                return "written here"
            say(f"{convert(1)} {weekday} {sqrt(4)}")
        """
        await play(used_box, code, tools=tools, values=FOR_SMALL_MODELS)
        assert tools.calls[-1].args == ("mine own written here",)

    async def test_functions_for_dates_and_units_are_imported_at_the_first_call(
        self, box: Box
    ) -> None:
        code = """
            import sys
            def loaded():
                parts = ("calculations", "dates", "units")
                return [name for name in parts if f"guest_{name}" in sys.modules]
            print(loaded())
            sqrt(4)
            print(loaded())
        """
        result = await play(box, code, values=FOR_SMALL_MODELS)
        assert result.output == "[]\n['calculations', 'dates', 'units']\n"

    async def test_an_ordinary_run_has_no_functions_for_sums_and_dates(self, box: Box) -> None:
        code = """
            import builtins, sys
            print([name for name in ("sqrt", "weekday") if hasattr(builtins, name)])
            print([name for name in sys.modules if "calculations" in name])
        """
        assert (await play(box, code)).output == "[]\n[]\n"

    async def test_the_host_names_the_time_zone(self, used_box: Box) -> None:
        said: list[str] = []

        async def handler(call: GuestCall) -> Answer:
            said.append(str(call.args[0]))
            return CallReturn(None)

        for zone in ("Pacific/Kiritimati", "Etc/GMT+12", "No/Zone"):
            functions = [GuestFunction(names=("say",)), GuestValue("__time_zone__", zone)]
            run = await used_box.start_run(functions, handler, QUICK)
            await run.feed("say(today())\n", 1)
            await run.finish()
        # These two zones are 26 hours apart, so they never have the same date.
        assert said[0] != said[1]
        assert said[2]
