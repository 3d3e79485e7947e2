"""What every `Backend` and every `Box` must do. A backend's tests subclass `BackendConformance`.

Read it from the top as what code in a box and the bot say to each other.
"""

import dataclasses
import datetime as dt
import enum
import io
import pathlib
import tarfile
import time
import uuid
from typing import NamedTuple

import anyio
import pytest

from nekro_core.sandbox.box import (
    Answer,
    Backend,
    Box,
    BoxFileError,
    BoxLost,
    BoxSpec,
    EndRun,
    GuestCall,
    GuestFunction,
    ImageUnavailable,
    Raise,
    RunLimits,
    StopReason,
    Value,
)
from tests.sandbox.conformance_commands import CommandConformance
from tests.sandbox.conformance_files import FileConformance
from tests.sandbox.conformance_globals import GlobalsConformance
from tests.sandbox.conformance_streams import StreamConformance
from tests.sandbox.play import QUICK, Tools, play


class Mood(enum.Enum):
    GOOD = "good"


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    name: str
    mood: Mood
    born: dt.date


class Loose:
    def __init__(self) -> None:
        self.size = 3
        self.me = self


class Point(NamedTuple):
    x: int
    y: int


class BackendConformance(
    CommandConformance, FileConformance, StreamConformance, GlobalsConformance
):
    """Needs the fixtures ``backend``, ``box`` (fresh) and ``used_box`` (one for many tests)."""

    async def test_an_unknown_image_is_refused_with_those_that_there_are(
        self, backend: Backend
    ) -> None:
        images = await backend.images()
        assert "python" in images
        assert list(images) == sorted(images)
        with pytest.raises(ImageUnavailable, match=r"'no/such:1'.*python") as refused:
            await backend.create(BoxSpec(template="no/such:1"))
        assert refused.value.available == images

    # Conversations

    async def test_code_calls_a_tool_and_goes_on_with_its_value(self, box: Box) -> None:
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

    async def test_statements_run_as_they_are_fed(self, box: Box) -> None:
        said = anyio.Event()

        async def handler(call: GuestCall) -> Answer:
            said.set()
            return Value(None)

        run = await box.start_run([GuestFunction(names=("say",))], handler, QUICK)
        await run.feed("say('hello')\n", 1)
        with anyio.fail_after(10):
            await said.wait()
        await run.feed("print('and more')\n", 2)
        result = await run.finish()
        assert (result.stop, result.output) == (StopReason.FINISHED, "and more\n")
        assert await run.finish() == await run.wait() == result

    async def test_a_tool_that_cannot_raises_tool_error(self, box: Box) -> None:
        code = """
            try:
                send("x")
            except ToolError as error:
                print("no:", error)
            send("y")
        """
        result = await play(box, code, send=Raise("the chat is closed"))
        assert result.output == "no: the chat is closed\n"
        assert result.stop is StopReason.ERROR
        assert result.error.endswith("ToolError: the chat is closed")
        assert 'File "<reply>", line 6, in <module>\n    send("y")' in result.error

    async def test_an_ended_run_cannot_go_on_whatever_it_catches(self, box: Box) -> None:
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
        with anyio.fail_after(10):
            result = await play(box, code, tools=tools)
        assert result.stop is StopReason.ENDED_BY_CALL
        assert ("after the end",) not in tools.asked
        seen = len(tools.calls)
        await anyio.sleep(0.1)
        assert len(tools.calls) == seen

    async def test_an_error_names_the_line_of_the_whole_reply(self, box: Box) -> None:
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

    async def test_threads_call_at_the_same_time(self, box: Box) -> None:
        both = anyio.Event()
        waiting = 0

        async def handler(call: GuestCall) -> Answer:
            nonlocal waiting
            waiting += 1
            if waiting == 2:
                both.set()
            await both.wait()
            return Value(call.args[0] * 2)

        code = (
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(2) as pool:\n    print(list(pool.map(double, [1, 2])))\n"
        )
        run = await box.start_run([GuestFunction(names=("double",))], handler, QUICK)
        await run.feed(code, 1)
        with anyio.fail_after(10):
            result = await run.finish()
        assert result.output == "[2, 4]\n"

    async def test_runs_take_turns_and_share_files_but_not_globals(self, box: Box) -> None:
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

    async def test_a_handler_that_fails_is_a_tool_error_without_our_secrets(
        self, box: Box, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(call: GuestCall) -> Answer:
            raise RuntimeError("host secret")

        result = await play(box, "tool()", tool=fail)
        assert result.stop is StopReason.ERROR
        assert "host secret" not in result.error
        assert "host secret" in caplog.text

    async def test_feeding_a_run_that_is_over_does_nothing(self, box: Box) -> None:
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
        with anyio.fail_after(5):
            result = await run.cancel()
            await cancelled.wait()
        assert (result.stop, result.output) == (StopReason.CANCELLED, "before\n")
        assert (await play(box, "print('next')")).output == "next\n"

    # Values

    @pytest.mark.parametrize(
        "value",
        [
            None,
            True,
            -(2**63),
            2**64 - 1,
            0.1,
            "",
            "text 文字 🎲\u202e\u200b",
            "x" * 10_000,
            b"",
            bytes(range(256)) * 100,
            [],
            [1, [2, [b"deep"]]],
            {"a": {"b": [None, b"c", "long" * 2000]}},
            {"$b": [0, 1]},
            {"$d": 1, "e": 2},
            {"$": {"$t": "x"}},
        ],
        ids=lambda value: repr(value)[:20],
    )
    async def test_plain_values_pass_both_ways_unchanged(
        self, used_box: Box, value: object
    ) -> None:
        tools = Tools({"give": value, "take": None})
        result = await play(used_box, "take(give(), key=give())", tools=tools)
        assert result.stop is StopReason.FINISHED, result.error
        assert tools.calls[-1].args == (value,)
        assert tools.calls[-1].kwargs == {"key": value}

    async def test_what_python_has_beside_plain_data_is_made_plain(self, box: Box) -> None:
        code = """
            import datetime, decimal, enum, pathlib, dataclasses, io, collections
            class Colour(enum.Enum):
                RED = "red"
            @dataclasses.dataclass
            class Card:
                title: str
                at: datetime.date
            take((1, 2), {3}, bytearray(b"x"), pathlib.Path("a/b"), Colour.RED)
            take(decimal.Decimal("1.5"))
            take(Card("t", datetime.date(2026, 1, 2)), {1: "one"}, io.BytesIO(b"p"), "\\ud800")
        """
        tools = Tools({"take": None})
        result = await play(box, code, tools=tools)
        assert result.stop is StopReason.FINISHED, result.error
        assert tools.asked == [
            ([1, 2], [3], b"x", "a/b", "red"),
            (1.5,),
            ({"title": "t", "at": "2026-01-02"}, {"1": "one"}, b"p", "?"),
        ]

    @pytest.mark.parametrize(
        ("argument", "words"),
        [
            ("object()", "TypeError: object cannot be handed to a tool"),
            ("float('nan')", "ValueError: nan cannot be handed to a tool"),
            ("10**30", "OverflowError: a whole number beyond 64 bits"),
            ("{(1, 2): 3}", "TypeError: a key of a dict"),
            ("lambda: 1", "TypeError: function cannot be handed to a tool"),
            ("deep", "ValueError: what is handed to a tool may be nested"),
            ("loop", "ValueError: what is handed to a tool may be nested"),
            ("b'x' * 2_000_000", "ValueError: the arguments of take() are 2000"),
            ("['a'] * 500_000", "ValueError: the arguments of take() are 2000"),
        ],
    )
    async def test_what_cannot_be_handed_over_is_told_where_it_stands(
        self, used_box: Box, argument: str, words: str
    ) -> None:
        shapes = "deep = []\nfor _ in range(200): deep = [deep]\nloop = []\nloop.append(loop)"
        code = f"{shapes}\ntake({argument})"
        tools = Tools({"take": None})
        result = await play(used_box, code, RunLimits(value_bytes=1_000_000), tools)
        assert result.stop is StopReason.ERROR
        assert words in result.error
        assert not tools.calls

    @pytest.mark.parametrize(
        ("value", "expression", "expected"),
        [
            (dt.date(2026, 1, 2), "v.year", "2026"),
            (uuid.UUID(int=5), "v.int", "5"),
            (pathlib.PurePosixPath("a/b"), "v.name", "b"),
            ({1, 2}, "sorted(v)", "[1, 2]"),
            (Mood.GOOD, "v", "good"),
            (StopReason.FINISHED, "v.upper()", "FINISHED"),
            (Point(1, 2), "v", "Point(x=1, y=2)"),
            (
                Member("Lin", Mood.GOOD, dt.date(2000, 1, 2)),
                "v.name, v['mood'], v.born.year",
                "Lin good 2000",
            ),
            ([Member("A", Mood.GOOD, dt.date.min)], "dict(v[0])['name']", "A"),
            (Loose(), "v.me is v and v.size", "3"),
            (ValueError("x", 1), "v.args", "('x', 1)"),
            (Member, "type(v).__name__", "Member"),
            (
                BoxFileError("not_found", "gone"),
                "v",
                "BoxFileError(args=('gone',), code='not_found')",
            ),
        ],
        ids=lambda value: repr(value)[:25],
    )
    async def test_any_value_reaches_the_code(
        self, used_box: Box, value: object, expression: str, expected: str
    ) -> None:
        result = await play(used_box, f"v = give()\nprint({expression})", give=Value(value))
        assert (result.output, result.error) == (f"{expected}\n", "")

    async def test_a_value_that_does_not_pickle_is_a_tool_error(self, box: Box) -> None:
        result = await play(box, "give()", give=Value(anyio.Lock))
        assert result.stop is StopReason.FINISHED
        result = await play(box, "give()", give=Value(n for n in ()))
        assert "ToolError: give gave a value that cannot reach the code" in result.error

    async def test_a_value_that_is_too_large_is_a_tool_error(self, box: Box) -> None:
        result = await play(box, "give()", RunLimits(value_bytes=1000), give=b"x" * 2000)
        assert "at most 1000 reach the code" in result.error

    # Limits

    async def test_a_loop_is_stopped_in_time(self, box: Box) -> None:
        began = time.monotonic()
        result = await play(box, "print('on')\nwhile True: pass", RunLimits(seconds=0.3))
        assert (result.stop, result.output) == (StopReason.TIMEOUT, "on\n")
        assert "0.3 s" in result.error
        assert result.seconds > 0.25
        assert time.monotonic() - began < 5

    async def test_waiting_for_source_and_for_tools_is_free(self, box: Box) -> None:
        async def slow(call: GuestCall) -> Answer:
            await anyio.sleep(0.4)
            return Value(None)

        limits = RunLimits(seconds=0.35)
        run = await box.start_run([GuestFunction(names=("slow",))], slow, limits)
        await run.feed("x = 1\n", 1)
        await anyio.sleep(0.4)
        await run.feed("slow()\n", 2)
        result = await run.finish()
        assert result.stop is StopReason.FINISHED, result
        assert result.seconds < 0.35

    async def test_too_many_calls_end_the_run(self, box: Box) -> None:
        tools = Tools({"tool": None})
        result = await play(box, "while True: tool()", RunLimits(calls=10), tools)
        assert (result.stop, result.calls, len(tools.calls)) == (StopReason.TOO_MANY_CALLS, 10, 10)
        assert "10 tool calls" in result.error

    async def test_output_is_capped_and_marked(self, box: Box) -> None:
        limits = RunLimits(output_bytes=1000, seconds=20)
        result = await play(box, "for _ in range(100000): print('x' * 99)", limits)
        assert (result.stop, len(result.output)) == (StopReason.FINISHED, 1000)
        assert result.output_truncated
        result = await play(box, "print('x' * 999)", limits)
        assert (len(result.output), result.output_truncated) == (1000, False)

    async def test_stdout_and_stderr_and_children_interleave(self, box: Box) -> None:
        code = """
            import os, subprocess, sys
            print("one")
            print("two", file=sys.stderr)
            subprocess.run(["/bin/sh", "-c", "echo three; echo four >&2"])
            os.write(1, b"\\xff\\x00five\\n")
        """
        assert (await play(box, code)).output == "one\ntwo\nthree\nfour\n\ufffd\x00five\n"

    async def test_memory_of_one_process_is_bounded(self, box: Box) -> None:
        result = await play(box, "x = bytearray(10**11)")
        assert result.stop is StopReason.OUT_OF_MEMORY
        caught = "try:\n    x = bytearray(10**10)\nexcept MemoryError:\n    print('caught')"
        assert (await play(box, caught)).output == "caught\n"

    async def test_memory_of_the_whole_tree_is_bounded(self, box: Box) -> None:
        code = """
            import os, time
            for _ in range(6):
                if not os.fork():
                    break
            x = bytearray(b"x") * (100 * 1024 * 1024)
            time.sleep(30)
        """
        with anyio.fail_after(20):
            result = await play(box, code, RunLimits(seconds=15))
        assert result.stop is StopReason.OUT_OF_MEMORY, result
        assert (await play(box, "print('still here')")).output == "still here\n"

    async def test_the_disk_is_bounded(self, box: Box) -> None:
        code = """
            for path in ("/home/user/big", "/tmp/big", "/dev/shm/big"):
                try:
                    with open(path, "wb") as file:
                        for _ in range(64):
                            file.write(b"x" * 1024 * 1024)
                            file.flush()
                    print("no bound on", path)
                except OSError as error:
                    print(error.errno)
        """
        assert (await play(box, code)).output == "28\n28\n28\n"

    # Ends

    @pytest.mark.parametrize(
        ("code", "words"),
        [
            ("import os\nos._exit(3)", "exit code 3"),
            ("import os\nos.abort()", "SIGABRT"),
            ("import ctypes\nctypes.string_at(0)", "SIGSEGV"),
            ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ],
    )
    async def test_a_process_that_dies_says_how_and_the_next_run_works(
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
    async def test_ways_to_end(self, used_box: Box, code: str, stop: StopReason) -> None:
        assert (await play(used_box, code)).stop is stop

    async def test_threads_are_waited_for_and_daemons_are_not(self, box: Box) -> None:
        code = """
            import threading, time
            threading.Thread(target=lambda: (time.sleep(0.2), print("joined"))).start()
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        """
        with anyio.fail_after(10):
            assert (await play(box, code)).output == "joined\n"

    async def test_a_run_that_was_never_fed_ends(self, box: Box) -> None:
        run = await box.start_run([], Tools({}).handle, QUICK)
        assert (await run.finish()).stop is StopReason.FINISHED

    # Files

    async def test_files_pass_both_ways(self, box: Box) -> None:
        data = bytes(range(256)) * 4096
        await box.write_file("/home/user/a/b/data.bin", data)
        await box.write_file("/app/shared/c.txt", b"c")
        await box.write_file("/app/uploads/pic/x.png", b"png")
        code = """
            import os
            print(os.path.getsize("a/b/data.bin"), open("/app/shared/c.txt").read())
            print(open("/app/uploads/pic/x.png").read())
            for path in ("/app/uploads/pic/x.png", "/app/uploads/new"):
                try:
                    open(path, "w")
                except OSError as error:
                    print(error.errno in (13, 30))
            open("/app/shared/out", "w").write("made inside")
        """
        result = await play(box, code)
        assert result.output == f"{len(data)} c\npng\nTrue\nTrue\n", result.error
        assert await box.read_file("a/b/data.bin", limit=len(data)) == data
        assert await box.read_file("/home/user/out", limit=100) == b"made inside"
        assert await box.read_file("/app/uploads/pic/x.png", limit=100) == b"png"

    @pytest.mark.parametrize(
        ("path", "code"),
        [
            ("nothing", "not_found"),
            ("nothing/below", "not_found"),
            ("folder", "is_a_directory"),
            ("/home/user", "is_a_directory"),
            ("/", "permission_denied"),
            ("/etc/passwd", "permission_denied"),
            ("../../etc/passwd", "permission_denied"),
            ("link_out", "permission_denied"),
            ("folder_out/passwd", "permission_denied"),
            ("/proc/self/environ", "permission_denied"),
            ("/proc/1/root/etc/passwd", "permission_denied"),
            ("loop", "permission_denied"),
            ("pipe", "invalid_input"),
            ("socket", "invalid_input"),
            ("file/below", "invalid_input"),
            ("a\0b", "invalid_input"),
            ("", "invalid_input"),
            ("x" * 300, "invalid_input"),
            ("secret", "permission_denied"),
            ("large", "too_large"),
        ],
        ids=lambda value: repr(value)[:30],
    )
    async def test_reading_what_is_no_file_of_the_box(self, box: Box, path: str, code: str) -> None:
        made = """
            import os, socket
            os.mkdir("folder")
            os.symlink("/etc/passwd", "link_out")
            os.symlink("/etc", "folder_out")
            os.symlink("loop", "loop")
            os.mkfifo("pipe")
            socket.socket(socket.AF_UNIX).bind("socket")
            for name, size in (("file", 1), ("large", 2000), ("secret", 1)):
                open(name, "w").write("x" * size)
            os.chmod("secret", 0)
        """
        assert (await play(box, made)).stop is StopReason.FINISHED
        with pytest.raises(BoxFileError) as caught, anyio.fail_after(5):
            await box.read_file(path, limit=1000)
        assert caught.value.code == code, str(caught.value)
        assert (await play(box, "print('well')")).output == "well\n"

    @pytest.mark.parametrize(
        ("path", "code"),
        [
            ("/etc/passwd", "permission_denied"),
            ("/usr/bin/x", "permission_denied"),
            ("link_out/x", "permission_denied"),
            ("../x", "permission_denied"),
            ("folder", "is_a_directory"),
            ("file/below", "invalid_input"),
            ("/app/uploads/../x", "invalid_input"),
            ("/app/uploads", "invalid_input"),
            ("/app/uploads/" + "x" * 300, "invalid_input"),
        ],
        ids=lambda value: repr(value)[:30],
    )
    async def test_writing_where_the_box_has_no_place(
        self, used_box: Box, path: str, code: str
    ) -> None:
        made = "import os\nos.mkdir('folder')\nos.symlink('/etc', 'link_out')\nopen('file', 'w')"
        await play(used_box, made)
        with pytest.raises(BoxFileError) as caught:
            await used_box.write_file(path, b"x" * 1_000_000)
        assert caught.value.code == code, str(caught.value)

    async def test_writing_beyond_the_disk_leaves_nothing_behind(self, box: Box) -> None:
        with pytest.raises(BoxFileError) as caught:
            await box.write_file("big", b"x" * 40 * 1024 * 1024)
        assert caught.value.code == "too_large"
        with pytest.raises(BoxFileError) as caught:
            await box.write_file("/app/uploads/big", b"x" * 40 * 1024 * 1024)
        assert caught.value.code == "too_large"
        assert (await play(box, "import os\nprint(os.listdir('.'))")).output == "[]\n"

    async def test_files_survive_in_an_archive(self, backend: Backend, box: Box) -> None:
        code = """
            import os
            os.makedirs("a/b")
            open("a/b/text", "w").write("kept")
            open("run.sh", "w").write("x"); os.chmod("run.sh", 0o755)
            os.symlink("a/b/text", "inner")
            os.symlink("/etc/passwd", "outer")
            os.symlink("/usr/bin/../../etc/passwd", "hidden")
            os.symlink("/usr/bin/env", "env")
            os.link("run.sh", "same")
            os.mkfifo("pipe")
        """
        assert (await play(box, code)).error == ""
        archive = await box.export_files()
        other = await backend.create(box_spec(box))
        try:
            await other.import_files(archive)
            look = """
                import os
                print(sorted(os.listdir(".")), open("inner").read(), os.access("run.sh", os.X_OK))
            """
            expected = "['a', 'env', 'inner', 'run.sh', 'same'] kept True\n"
            assert (await play(other, look)).output == expected
        finally:
            await other.destroy()

    async def test_only_what_changed_is_exported(self, backend: Backend, box: Box) -> None:
        def names(archive: bytes) -> list[str]:
            with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                return [entry.name for entry in files if not entry.isdir()]

        assert (await box.export_changes()).entries == 0
        for name in ("a", "b", "d/c"):
            await box.write_file(name, name.encode())
        first = await box.export_changes()
        assert (first.whole, names(first.archive), first.removed) == (True, ["a", "b", "d/c"], ())
        await anyio.sleep(0.1)  # what changed just now is sent twice: its times may stay the same
        settled = await box.export_changes(first.state)
        quiet = await box.export_changes(settled.state)
        assert (quiet.whole, quiet.entries, quiet.removed, quiet.archive) == (False, 0, (), b"")
        code = """
            import os
            times = os.stat("a")
            open("a", "w").write("A")  # as long as before
            os.utime("a", ns=(times.st_atime_ns, times.st_mtime_ns))
            os.remove("b")
            os.rename("d", "e")
            os.symlink("a", "link")
        """
        assert (await play(box, code)).error == ""
        changed = await box.export_changes(quiet.state)
        assert not changed.whole
        assert names(changed.archive) == ["a", "e/c", "link"]
        assert sorted(changed.removed) == ["b", "d", "d/c"]
        # Whoever could not store that one names the state before, and gets all.
        again = await box.export_changes(quiet.state)
        assert (again.whole, names(again.archive)) == (True, ["a", "e/c", "link"])
        other = await backend.create(box_spec(box))
        try:
            await other.import_files(again.archive)
            state = await other.note_files()
            await anyio.sleep(0.1)
            same = await other.export_changes(state)
            assert (same.whole, same.removed) == (False, ())
            look = "print(open('link').read(), os.listdir('e'))"
            assert (await play(other, f"import os; {look}")).output == "A ['c']\n"
        finally:
            await other.destroy()

    async def test_a_hostile_archive_reaches_nothing(self, box: Box) -> None:
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            for name in ("../escaped", "/etc/escaped", "a/../../escaped", "/tmp/escaped"):
                entry = tarfile.TarInfo(name)
                entry.size = 1
                archive.addfile(entry, io.BytesIO(b"x"))
            for name, kind, target in (
                ("out", tarfile.SYMTYPE, "/tmp"),
                ("up", tarfile.SYMTYPE, "../../tmp"),
                ("hard", tarfile.LNKTYPE, "/etc/passwd"),
                ("device", tarfile.CHRTYPE, ""),
                ("pipe", tarfile.FIFOTYPE, ""),
            ):
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = kind, target
                archive.addfile(entry)
            entry = tarfile.TarInfo("suid")
            entry.mode = 0o6777
            archive.addfile(entry, io.BytesIO())
        await box.import_files(made.getvalue())
        look = """
            import os
            print(sorted(os.listdir(".")), os.listdir("/tmp"), oct(os.stat("suid").st_mode))
        """
        assert (await play(box, look)).output == "['suid'] [] 0o100755\n"

    @pytest.mark.parametrize("archive", [b"", b"no archive" * 100, b"\1" * 5000])
    async def test_an_archive_that_is_none(self, used_box: Box, archive: bytes) -> None:
        with pytest.raises(BoxFileError) as caught:
            await used_box.import_files(archive)
        assert caught.value.code == "invalid_input"
        assert used_box.alive

    # Life

    async def test_a_destroyed_box_is_lost_for_everyone(self, box: Box) -> None:
        run = await box.start_run([], Tools({}).handle, QUICK)
        await run.feed("import time\ntime.sleep(60)\n", 1)
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:

                async def waiting() -> None:
                    with pytest.raises(BoxLost):
                        await box.start_run([], Tools({}).handle, QUICK)

                tasks.start_soon(waiting)
                await anyio.sleep(0.05)
                await box.destroy()
                await box.destroy()
            result = await run.finish()
        assert result.stop is StopReason.DIED
        assert "destroyed" in result.error
        assert not box.alive
        with pytest.raises(BoxLost):
            await box.read_file("x", limit=1)
        with pytest.raises(BoxLost):
            await box.write_file("/app/uploads/x", b"")

    async def test_boxes_do_not_see_each_other(self, backend: Backend, box: Box) -> None:
        other = await backend.create(box_spec(box))
        try:
            await box.write_file("mine", b"x")
            await box.write_file("/app/uploads/mine", b"x")
            look = "import os\nprint(os.listdir('.'), os.listdir('/app/uploads'))"
            assert (await play(other, look)).output == "[] []\n"
        finally:
            await other.destroy()

    async def test_the_self_check_holds(self, backend: Backend) -> None:
        checked = await backend.self_check()
        assert checked.ok, [check for check in checked.checks if not check.ok]
        assert len(checked.checks) >= 10


def box_spec(box: Box):
    """The sort of box that a box is, as its backend keeps it."""
    return box.spec  # type: ignore[attr-defined]
