"""Tests of globals that are kept between runs. Every box must pass them.

Part of `tests.sandbox.conformance`.
"""

from textwrap import dedent

import anyio
import pytest

from nekro_core.sandbox.box import (
    Answer,
    Box,
    CallReturn,
    EndRun,
    GuestCall,
    GuestFunction,
    RunLimits,
    RunResult,
    StopReason,
)
from tests.sandbox.run_code import QUICK, Tools, play


async def cell(
    box: Box, code: str, limits: RunLimits = QUICK, *, keep: bool = True, **answers: object
) -> RunResult:
    """Run code with the kept globals of earlier runs, like the next cell of a notebook, and keep
    its globals. If ``keep`` is false, run it as a separate program."""
    tools = Tools(answers)
    functions = [GuestFunction(names=(name, f"room.{name}")) for name in answers]
    run = await box.start_run(functions, tools.handle, limits, keep_globals=keep)
    await run.feed(code, 1)
    return await run.finish()


_SPY = dedent(
    """
    import os, time

    def mem(pid):
        spans = [line.split() for line in open(f"/proc/{pid}/maps")]
        file = os.open(f"/proc/{pid}/mem", os.O_RDWR)
        for span in spans:
            low, high = (int(number, 16) for number in span[0].split("-"))
            if "rw" in span[1]:
                found = os.pread(file, high - low, low).find(b"MARKERMARKER")
                if found >= 0:
                    os.pwrite(file, b"SPOILT", low + found)

    ways = {
        "maps": lambda pid: open(f"/proc/{pid}/maps").read(),
        "mem": mem,
        "fd": lambda pid: open(f"/proc/{pid}/fd/1", "w").close(),
    }
    seen = open("seen", "w", buffering=1)
    while True:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for name, way in ways.items():
                try:
                    way(pid)
                    said = "done"
                except OSError as error:
                    said = type(error).__name__
                seen.write(f"{pid} {name}: {said}\\n")
        time.sleep(0.1)
    """
).encode()
"""A program that tries to read and change the memory of every process of its box."""

_LOOKED_AT = dedent(
    """
    import os, time

    def looks():
        with open("seen", "a+") as seen:
            seen.seek(0)
            return sum(line.startswith(f"{pid} fd: ") for line in seen)

    pid, x = os.getpid(), "MAR" + "KER"
    y = bytearray(x.encode() * 2)
    before = looks()
    while looks() < before + 5:
        time.sleep(0.05)
    print(pid, y.decode())
    """
)
"""Code that runs until `_SPY` has tried each of its attacks on this code several times."""


class GlobalsConformance:
    """Needs the fixture ``box`` (new for each test)."""

    async def test_a_run_that_keeps_globals_starts_with_those_of_the_last_run_that_kept_them(
        self, box: Box
    ) -> None:
        first = await cell(box, "import math\nx = 1\ndef half():\n    return x / 2")
        assert (first.stop, first.globals_kept) == (StopReason.FINISHED, True)
        assert (await cell(box, "x = 3\nprint(half(), math.pi > 3)")).output == "1.5 True\n"
        clean = await play(box, "print('x' in globals())")
        assert (clean.output, clean.globals_kept) == ("False\n", False)
        await box.execute("sleep 1011 &")
        assert (await cell(box, "print(x)")).output == "3\n"
        failed = await cell(box, "x = 0\nhalf(1)")
        assert (failed.stop, failed.globals_kept) == (StopReason.ERROR, True)
        assert 'File "<reply 4>", line 2, in <module>\n    half(1)' in failed.error
        deeper = await cell(box, "del x\nhalf()")
        assert 'File "<reply>", line 4, in half\n    return x / 2' in deeper.error
        assert (await cell(box, "print(await math_is_there())")).stop is StopReason.ERROR
        assert (await cell(box, "print(math.tau > 6)")).output == "True\n"

    async def test_tools_of_a_run_end_with_it_although_its_globals_are_kept(self, box: Box) -> None:
        assert (await cell(box, "old = one\nprint(one(), room.one())", one=1)).output == "1 1\n"
        result = await cell(box, "print(two(), room.two(), 'one' in globals())", two=2)
        assert result.output == "2 2 False\n"
        assert (await cell(box, "two = 'mine'\nprint(two)", two=2)).output == "mine\n"
        assert (await cell(box, "print(two, room.two())", two=2)).output == "mine 2\n"
        assert (await cell(box, "old()", two=2)).stop is StopReason.PROTOCOL_ERROR

    async def test_a_run_without_kept_globals_has_none_of_the_tools_of_the_run_before(
        self, box: Box
    ) -> None:
        look = "print(sorted(set(globals()) & {'one', 'two', 'room'}))"
        for name in ("one", "one", "two", "one"):
            result = await cell(
                box, f"import room\nprint({name}(), room.{name}())\n{look}", keep=False, **{name: 7}
            )
            assert result.output == f"7 7\n{sorted((name, 'room'))}\n", result
            await anyio.sleep(0.05)  # in this time the next interpreter is forked
        result = await cell(box, f"{look}\nimport room", keep=False)
        assert result.output == "[]\n"
        assert "No module named 'room'" in result.error

    @pytest.mark.parametrize(
        ("code", "stop"),
        [
            ("while True: pass", StopReason.TIMEOUT),
            ("import os\nos._exit(3)", StopReason.DIED),
            ("import ctypes\nctypes.string_at(0)", StopReason.DIED),
            ("for _ in range(100): tool()", StopReason.TOO_MANY_CALLS),
        ],
    )
    async def test_the_result_says_so_if_the_end_of_a_run_loses_the_globals(
        self, box: Box, code: str, stop: StopReason
    ) -> None:
        await cell(box, "x = 1")
        seconds = 0.5 if stop is StopReason.TIMEOUT else 30
        result = await cell(box, code, RunLimits(seconds=seconds, calls=10), tool=1)
        assert (result.stop, result.globals_kept) == (stop, False)
        assert (await cell(box, "print('x' in globals())")).output == "False\n"

    async def test_threads_and_child_processes_stop_between_two_runs_that_share_globals(
        self, box: Box
    ) -> None:
        code = """
import subprocess, threading, time
count = 0
def go_on():
    global count
    while True:
        count += 1
        time.sleep(0.001)
threading.Thread(target=go_on, daemon=True).start()
child = subprocess.Popen(["sleep", "1012"])
"""
        assert (await cell(box, code)).globals_kept
        counted = int((await cell(box, "print(count)")).output)
        await anyio.sleep(1)
        assert int((await cell(box, "print(count)")).output) < counted + 500
        assert (await cell(box, "print(child.wait())")).output == "-9\n"

    async def test_an_interpreter_that_is_killed_between_two_runs_is_replaced(
        self, box: Box
    ) -> None:
        await cell(box, "import os\nx = os.getpid()\nopen('pid', 'w').write(str(x))")
        await box.execute("kill -9 $(cat pid); sleep 0.1")
        assert (await cell(box, "print('x' in globals())")).output == "False\n"
        await cell(box, "import os\nopen('pid', 'w').write(str(os.getpid()))", one=1)
        await box.execute("kill -9 $(cat pid); sleep 0.1")
        assert (await cell(box, "print(one(), room.one())", one=1)).output == "1 1\n"
        pid = (await cell(box, "import os\nprint(os.getpid())\nx = 5")).output.strip()
        await play(box, f"import os, signal\nos.kill({pid}, signal.SIGCONT)")
        assert (await cell(box, "print(x)")).output == "5\n"

    async def test_globals_survive_a_call_that_ends_the_run(self, box: Box) -> None:
        async def end(_call: GuestCall) -> Answer:
            return EndRun()

        code = """
            x = 1
            def deep():
                try:
                    tool()
                except Exception:
                    x = 2
            deep()
            x = 3
        """
        for way in ("deep()", "import asyncio\nasync def main():\n    deep()\nasyncio.run(main())"):
            run = await box.start_run(
                [GuestFunction(names=("tool",))], end, QUICK, keep_globals=True
            )
            await run.feed(dedent(code).replace("deep()\nx = 3", f"{way}\nx = 3"), 1)
            result = await run.finish()
            assert (result.stop, result.globals_kept) == (StopReason.ENDED_BY_CALL, True), result
            assert (await cell(box, "print(x)")).output == "1\n"

    async def test_code_that_goes_on_after_a_call_that_ends_the_run_is_killed(
        self, box: Box
    ) -> None:
        async def end(_call: GuestCall) -> Answer:
            return EndRun()

        code = """
            while True:
                try:
                    tool()
                except BaseException:
                    open("went_on", "w").write("x")
        """
        run = await box.start_run([GuestFunction(names=("tool",))], end, QUICK, keep_globals=True)
        await run.feed(dedent(code), 1)
        with anyio.fail_after(5):
            result = await run.finish()
        assert (result.stop, result.globals_kept) == (StopReason.ENDED_BY_CALL, False)
        assert result.calls == 1

    async def test_the_globals_of_code_that_forks_are_not_kept(self, box: Box) -> None:
        code = "import os, time\nif os.fork():\n    time.sleep(20)\n"
        result = await cell(box, code)
        assert not result.globals_kept
        assert (await cell(box, "print('os' in globals())")).output == "False\n"
        bomb = await cell(box, "import os\nwhile True:\n    os.fork()", RunLimits(seconds=2))
        assert bomb.stop is not StopReason.FINISHED
        assert (await cell(box, "print('well')")).output == "well\n"

    async def test_a_background_process_cannot_read_or_change_a_run(self, box: Box) -> None:
        """A run calls functions with the rights of the person who asked. A background process that
        another person's command has left must not use these rights."""
        await box.write_file("/home/user/spy.py", _SPY)
        await box.execute("nohup python3 -IS spy.py >/dev/null 2>&1 &")
        box.drop_globals()
        for keep in (True, False):
            result = await cell(box, _LOOKED_AT, keep=keep)
            assert result.stop is StopReason.FINISHED, result
            pid, left = result.output.split()
            assert left == "MARKERMARKER"
            seen = (await box.execute("cat seen")).stdout.text.split("\n")
            tried = {line.partition(" ")[2] for line in seen if line.startswith(f"{pid} ")}
            refused = {f"{way}: PermissionError" for way in ("maps", "mem", "fd")}
            assert tried == refused, tried

    async def test_drop_globals_removes_the_globals(self, box: Box) -> None:
        await cell(box, "x = 1")
        box.drop_globals()
        assert (await cell(box, "print('x' in globals())", one=1)).output == "False\n"
        box.drop_globals()
        box.drop_globals()
        assert (await cell(box, "print(one())", one=1)).output == "1\n"

    @pytest.mark.parametrize("keep", [True, False])
    async def test_output_after_a_checkpoint_is_returned_separately(
        self, box: Box, keep: bool
    ) -> None:
        async def answer(call: GuestCall) -> Answer:
            return CallReturn(call.name, checkpoint=call.name == "send")

        functions = [GuestFunction(names=("send",)), GuestFunction(names=("look",))]

        async def fresh(code: str) -> str:
            run = await box.start_run(functions, answer, QUICK, keep_globals=keep)
            await run.feed(dedent(code), 1)
            return (await run.finish()).fresh_output

        assert await fresh("print('a')\nsend()") == ""
        assert await fresh("print('a', end='')\nsend()\nprint('b')\nlook()") == "b\nlook\n"
        assert await fresh("print('a')\nlook()\nprint('b')") == "a\nb\n"
        assert await fresh("import os\nos.write(1, b'\\xff')\nsend()\nprint('b')") == "b\n"
        assert await fresh("print('a')\nprint(send())") == "send\n"
        assert await fresh("for n in range(3):\n    print(n)\n    send()\nprint('end')") == "end\n"

    @pytest.mark.parametrize(
        ("code", "shown"),
        [
            ("x = 5\nx + 1", "6\n"),
            ("'a text'.upper()", "A TEXT\n"),
            ("[1, 'a']", "[1, 'a']\n"),
            ("look()", "look\n"),
            ("await look()", "look\n"),
            ("1; 2 + 2", "4\n"),
            ("(1 +\n 1)", "2\n"),
            ("send()", ""),
            ("[send(), look()]", ""),
            ("look(send())", ""),
            ("send()\nlook()", "look\n"),
            ("'a comment'", ""),
            ("...", ""),
            ("None", ""),
            ("print('a')", "a\n"),
            ("x = 5", ""),
            ("for x in [1, 2]: x", ""),
            ("if True:\n    look()", ""),
            ("5 + 5\ndef f(): pass", ""),
            ("open('x', 'w').write('abc')", ""),
            ("x = 5\nx + 1\nexit()", ""),
        ],
    )
    async def test_the_value_of_a_last_expression_is_shown(
        self, box: Box, code: str, shown: str
    ) -> None:
        async def answer(call: GuestCall) -> Answer:
            return CallReturn(call.name, shown=call.name != "send")

        functions = [GuestFunction(names=("send",)), GuestFunction(names=("look",))]
        run = await box.start_run(functions, answer, QUICK, keep_globals=True)
        await run.feed(code, 1)
        result = await run.finish()
        assert (result.output, result.stop) == (shown, StopReason.FINISHED), result.error
