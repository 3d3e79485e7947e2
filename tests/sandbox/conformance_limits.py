"""Tests of the limits for the code of a run. Part of `tests.sandbox.conformance`."""

import contextlib
import textwrap
import time

import anyio

from nekro_core.sandbox.box import (
    Answer,
    Box,
    BoxLost,
    CallReturn,
    GuestCall,
    GuestFunction,
    RunLimits,
    StopReason,
)
from tests.sandbox.run_code import Tools, play

_TRIES = 5
"""How many times a run is tried that may compute for less than a second. If waiting counted, each
try would be stopped. A busy machine stops only some."""


class LimitConformance:
    """Needs the fixture ``box`` (new for each test)."""

    async def test_a_loop_is_stopped_in_time(self, box: Box) -> None:
        began = time.monotonic()
        result = await play(box, "print('on')\nwhile True: pass", RunLimits(seconds=1))
        assert (result.stop, result.output) == (StopReason.TIMEOUT, "on\n")
        assert "1 s" in result.error
        assert 0.9 < result.seconds <= time.monotonic() - began < 30

    async def test_waiting_for_source_and_for_tools_does_not_count_as_run_time(
        self, box: Box
    ) -> None:
        async def slow(call: GuestCall) -> Answer:
            await anyio.sleep(1.1)
            return CallReturn(None)

        tries = []
        for _ in range(_TRIES):
            run = await box.start_run([GuestFunction(names=("slow",))], slow, RunLimits(seconds=1))
            await run.feed("x = 1\n", 1)
            await anyio.sleep(1.1)
            await run.feed("slow()\n", 2)
            result = await run.finish()
            if result.stop is StopReason.FINISHED and result.seconds < 1:
                return
            tries.append(result)
        raise AssertionError(f"waiting counts: {tries}")

    async def test_too_many_calls_end_the_run(self, box: Box) -> None:
        tools = Tools({"tool": None})
        result = await play(box, "while True: tool()", RunLimits(calls=10), tools)
        assert (result.stop, result.calls, len(tools.calls)) == (StopReason.TOO_MANY_CALLS, 10, 10)
        assert "10 tool calls" in result.error

    async def test_output_beyond_the_limit_is_dropped_and_the_result_says_so(
        self, box: Box
    ) -> None:
        limits = RunLimits(output_bytes=1000, seconds=20)
        result = await play(box, "for _ in range(100000): print('x' * 99)", limits)
        assert (result.stop, len(result.output)) == (StopReason.FINISHED, 1000)
        assert result.output_truncated
        result = await play(box, "print('x' * 999)", limits)
        assert (len(result.output), result.output_truncated) == (1000, False)

    async def test_output_of_stdout_stderr_and_children_stays_in_order(self, box: Box) -> None:
        code = """
            import os, subprocess, sys
            print("one")
            print("two", file=sys.stderr)
            subprocess.run(["/bin/sh", "-c", "echo three; echo four >&2"])
            os.write(1, b"\\xff\\x00five\\n")
        """
        assert (await play(box, code)).output == "one\ntwo\nthree\nfour\n\ufffd\x00five\n"

    async def test_the_memory_of_one_process_is_limited(self, box: Box) -> None:
        result = await play(box, "x = bytearray(10**11)")
        assert result.stop is StopReason.OUT_OF_MEMORY
        caught = "try:\n    x = bytearray(10**10)\nexcept MemoryError:\n    print('caught')"
        assert (await play(box, caught)).output == "caught\n"

    async def test_the_memory_of_all_processes_together_is_limited(self, box: Box) -> None:
        code = """
            import os, time
            for _ in range(6):
                if not os.fork():
                    break
            x = bytearray(b"x") * (100 * 1024 * 1024)
            time.sleep(30)
        """
        with anyio.fail_after(30):
            result = await play(box, code, RunLimits(seconds=15))
        assert result.stop is StopReason.OUT_OF_MEMORY, result
        assert (await play(box, "print('still here')")).output == "still here\n"

    async def test_an_idle_box_reports_its_memory(self, box: Box) -> None:
        await play(box, "open('kept', 'wb').write(b'x' * 12_000_000)")
        with anyio.fail_after(30):
            while box.idle_bytes < 17_000_000:
                await anyio.sleep(0.05)
        with_file = box.idle_bytes
        assert with_file < 49_000_000, with_file
        await box.execute("rm kept")
        with anyio.fail_after(30):
            while box.idle_bytes > with_file - 8_000_000:
                await anyio.sleep(0.05)
        await box.execute("python3 -c 'import time; x = b\"x\" * 60_000_000; time.sleep(60)' &")
        with anyio.fail_after(15):  # the memory is measured every five seconds
            while box.idle_bytes < 60_000_000:
                await anyio.sleep(0.05)

    async def test_the_disk_space_is_limited(self, box: Box) -> None:
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

    async def test_the_number_of_files_is_limited_for_a_run(self, box: Box) -> None:
        result = await play(box, MAKES_FILES.format(seconds=20), RunLimits(seconds=30))
        assert result.stop in (StopReason.OUT_OF_MEMORY, StopReason.ERROR), result
        assert await there_are_few_files(box)

    async def test_the_number_of_files_is_limited_for_a_command(self, box: Box) -> None:
        code = textwrap.dedent(MAKES_FILES.format(seconds=20))
        with anyio.fail_after(15), contextlib.suppress(BoxLost):
            result = await box.execute(["python3", "-c", code], timeout_s=25)
            assert result.exit_code != 0, result
        assert await there_are_few_files(box)

    async def test_the_number_of_files_is_limited_for_a_process_that_a_command_left(
        self, box: Box
    ) -> None:
        code = textwrap.dedent(MAKES_FILES.format(seconds=20))
        await box.write_file("makes.py", code.encode())
        await box.execute("python3 makes.py >/dev/null 2>&1 & echo $! >number")
        with anyio.fail_after(15), contextlib.suppress(BoxLost):
            while (await box.execute("kill -0 $(cat number) && echo on")).stdout.text:
                await anyio.sleep(0.2)
        assert await there_are_few_files(box)


MAKES_FILES = """
    import itertools, os, time
    until = time.monotonic() + {seconds}
    # A folder after another: one with very many gets slow.
    for turn in itertools.count():
        for root in ("/home/user", "/tmp", "/dev/shm"):
            folder = f"{{root}}/{{os.getpid()}}_{{turn}}"
            os.mkdir(folder)
            for n in range(2000):
                os.mknod(f"{{folder}}/{{n}}")
        if time.monotonic() > until:
            break
"""
"""Code that makes empty files in every writable folder for ``seconds``."""


async def there_are_few_files(box: Box) -> bool:
    """Return True if the box has at most 100,000 files, or was destroyed because it had too
    many."""
    code = """
        import os
        print(sum(len(names) + len(folders) for root in ("/home/user", "/tmp", "/dev/shm")
                  for _, folders, names in os.walk(root)))
    """
    try:
        result = await play(box, code)
    except BoxLost as lost:
        return "too many files" in str(lost)
    if result.stop is StopReason.DIED:
        return "too many files" in result.error
    return int(result.output) <= 100_000
