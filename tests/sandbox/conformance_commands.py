"""Tests of commands, which every box must pass. Part of `tests.sandbox.conformance`."""

import anyio
import pytest

from nekro_core.sandbox.box import (
    Backend,
    Box,
    BoxFileError,
    BoxLost,
    CallReturn,
    GuestCall,
    StopReason,
)
from nekro_core.sandbox.results import CommandOutput
from tests.sandbox.run_code import Tools, play

PRESENT = """
    import glob
    found = 0
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            found += {mark!r} in open(path).read().split(chr(0))
        except OSError:
            pass
    print(found)
"""


BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""


async def present(box: Box, mark: str) -> int:
    """The number of the box's processes that have ``mark`` as one of their arguments."""
    return int((await play(box, PRESENT.format(mark=mark))).output)


async def gone(box: Box, mark: str) -> bool:
    """Return True if all processes that `present` counts end within 5 seconds."""
    for _ in range(100):
        if not await present(box, mark):
            return True
        await anyio.sleep(0.05)
    return False


class CommandConformance:
    """Needs the fixtures ``backend``, ``box`` (new for each test) and ``used_box`` (shared)."""

    # Calls and results

    @pytest.mark.parametrize(
        ("command", "exit_code", "stdout", "stderr"),
        [
            ("printf a; exit 3", 3, "a", ""),
            ("kill -9 $$", 137, "", ""),
            ("kill -TERM $$", 143, "", ""),
            ("echo out; echo err >&2", 0, "out\n", "err\n"),
            (["printf", "%s|", "a b", "$HOME", "*", ""], 0, "a b|$HOME|*||", ""),
            (["sh", "-c", "exit 7"], 7, "", ""),
            ("pwd; echo $HOME; echo $0", 0, "/home/user\n/home/user\n/bin/sh\n", ""),
            ("nonesuch-program 2>/dev/null", 127, "", ""),
            ("printf '\\377\\000x'", 0, "\ufffd\x00x", ""),
            ("readlink /proc/self/fd/0", 0, "/dev/null\n", ""),
            ("ls /proc/self/fd | wc -l", 0, "4\n", ""),
        ],
        ids=lambda value: repr(value)[:30],
    )
    async def test_a_command_returns_its_exit_code_and_output(
        self, used_box: Box, command: str, exit_code: int, stdout: str, stderr: str
    ) -> None:
        result = await used_box.execute(command)
        assert (result.exit_code, result.stdout.text, result.stderr.text) == (
            exit_code,
            stdout,
            stderr,
        )
        assert not result.timed_out
        assert not result.stdout.truncated

    async def test_a_command_gets_its_folder_variables_and_input(self, used_box: Box) -> None:
        await used_box.execute(["mkdir", "-p", "a b; touch $(pwned) \n*"])
        result = await used_box.execute(
            "pwd; cat; echo $COLOUR; ls",
            working_dir="a b; touch $(pwned) \n*",
            environment={"COLOUR": "red `touch pwned`"},
            standard_input=b"given\x00\xff",
        )
        assert result.stdout.head == (
            b"/home/user/a b; touch $(pwned) \n*\ngiven\x00\xffred `touch pwned`\n"
        )
        many = b"x" * 3_000_000
        assert (await used_box.execute("wc -c", standard_input=many)).stdout.text == "3000000\n"

    async def test_a_tool_of_a_run_executes_a_command_in_the_same_box(self, box: Box) -> None:
        async def shell(call: GuestCall) -> CallReturn:
            return CallReturn((await box.execute(call.args[0])).stdout.text)

        code = "open('note', 'w').write('from the run')\nprint(shell('cat note; echo x > there'))"
        result = await play(box, f"{code}\nprint(open('there').read())", shell=shell)
        assert result.output == "from the run\nx\n\n"

    async def test_commands_run_at_the_same_time(self, used_box: Box) -> None:
        wait = "touch met.{0}; while ! [ -e met.{1} ]; do sleep 0.01; done"
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                for number in range(4):
                    command = wait.format(number, (number + 1) % 4)
                    tasks.start_soon(used_box.execute, command)

    async def test_background_processes_of_commands_outlive_later_commands_and_runs(
        self, box: Box
    ) -> None:
        daemon = "import os, time\nif not os.fork():\n os.setsid()\n if not os.fork():"
        daemon += " time.sleep(1002)"
        with anyio.fail_after(30):
            result = await box.execute("sleep 1001 & echo started; echo e >&2")
            await box.execute(["python3", "-c", daemon, "1002"])
        assert (result.stdout.text, result.stderr.text) == ("started\n", "e\n"), result
        code = "import subprocess\nsubprocess.Popen(['sleep', '1003'], start_new_session=True)"
        assert (await play(box, code)).stop is StopReason.FINISHED
        assert [await present(box, mark) for mark in ("1001", "1002", "1003")] == [1, 1, 0]
        assert (await play(box, "1/0")).stop is StopReason.ERROR
        assert await present(box, "1001") == 1

    async def test_a_background_process_may_print_and_its_output_is_dropped(self, box: Box) -> None:
        command = "(while :; do echo 0123456789; done) & echo $! > pid"
        result = await box.execute(command, output_bytes=1000)
        assert len(result.stdout.head) + len(result.stdout.tail) <= 1000
        for _ in range(3):
            assert (await box.execute("kill -0 $(cat pid) && echo lives")).stdout.text == "lives\n"
        await box.execute("kill -9 $(cat pid)")

    # How commands end

    async def test_at_its_timeout_a_command_is_killed_with_all_its_processes(
        self, box: Box
    ) -> None:
        daemon = "import os, time\nif not os.fork():\n os.setsid()\n if not os.fork():"
        daemon += " time.sleep(1004)"
        command = f"echo x; python3 -c '{daemon}' 1004; setsid sleep 1005 & sleep 1006"
        with anyio.fail_after(30):
            result = await box.execute(command, timeout_s=2)
        assert (result.exit_code, result.timed_out, result.stdout.text) == (124, True, "x\n")
        # Killed processes take a moment to disappear: 2 of 120 were still there at load 28.
        for mark in ("1004", "1005", "1006"):
            assert await gone(box, mark)

    async def test_a_command_ends_when_its_caller_is_cancelled(self, box: Box) -> None:
        with anyio.move_on_after(0.4):
            await box.execute("sleep 1007 & sleep 1007")
        assert await gone(box, "1007")

    async def test_a_fork_bomb_ends_at_its_timeout(self, box: Box) -> None:
        with anyio.fail_after(30):
            result = await box.execute(["python3", "-IS", "-c", BOMB, "1008"], timeout_s=0.5)
            assert result.exit_code == 124
            assert await gone(box, "1008")
            assert (await box.execute("echo well")).stdout.text == "well\n"

    async def test_a_run_gets_its_process_although_processes_of_a_command_use_up_the_process_limit(
        self, box: Box
    ) -> None:
        # The box stays full only if one of these processes forks as soon as a run has ended.
        # Sleeping processes do so; computing ones are too slow on a busy machine.
        full = 'import time; open("full", "w").close(); time.sleep(0.001)'
        code = BOMB.replace("pass", full)
        with anyio.fail_after(30):
            await box.execute(f"python3 -IS -c '{code}' 1009 &")
            while await box.status("full") is None:
                await anyio.sleep(0.01)
            for _ in range(3):
                assert (await play(box, "print('well')")).output == "well\n"
            assert await gone(box, "1009")
            assert (await box.execute("echo well")).stdout.text == "well\n"

    async def test_a_command_that_ignores_signals_is_killed(self, used_box: Box) -> None:
        with anyio.fail_after(30):
            result = await used_box.execute("trap '' TERM INT HUP; sleep 60", timeout_s=0.2)
        assert result.timed_out

    async def test_a_run_that_kills_every_process_ends_commands_but_not_the_box(
        self, box: Box
    ) -> None:
        results = []

        async def command() -> None:
            results.append(await box.execute("touch begun; sleep 60"))

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(command)
                while await box.status("begun") is None:
                    await anyio.sleep(0.01)
                result = await play(box, "import os\nos.kill(-1, 9)")
        assert result.stop is StopReason.FINISHED  # the kernel does not kill the calling process
        assert results[0].exit_code == 137
        assert (await box.execute("echo well")).stdout.text == "well\n"
        assert (await play(box, "print('well')")).output == "well\n"

    async def test_a_run_that_stops_every_process_stops_no_later_command(self, box: Box) -> None:
        await box.execute("true")
        code = "import os, signal\nos.kill(-1, signal.SIGSTOP)"
        with anyio.fail_after(30):
            assert (await play(box, code)).stop is StopReason.FINISHED
            assert (await box.execute("echo well")).stdout.text == "well\n"

    async def test_stop_commands_ends_earlier_commands_and_no_later_one(self, box: Box) -> None:
        results = []

        async def command(number: int) -> None:
            results.append(await box.execute(f"touch begun.{number}; sleep 60"))

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                for number in range(5):
                    tasks.start_soon(command, number)
                    while await box.status(f"begun.{number}") is None:
                        await anyio.sleep(0.01)
                    box.stop_commands()
                    assert (await box.execute("echo well")).stdout.text == "well\n"
        assert [result.exit_code for result in results] == [137] * 5

    async def test_a_command_ends_with_its_box(self, backend: Backend, box: Box) -> None:
        async def command() -> None:
            with pytest.raises(BoxLost):
                await box.execute("sleep 60")

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(command)
                await anyio.sleep(0.2)
                await box.destroy()
        with pytest.raises(BoxLost):
            await box.execute("true")

    # Limits

    async def test_long_output_is_shortened_in_the_middle_and_stored_in_a_file(
        self, used_box: Box
    ) -> None:
        result = await used_box.execute(
            "seq 100000; seq 3 >&2", output_bytes=1000, spill_to="out/c1"
        )
        whole = "".join(f"{number}\n" for number in range(1, 100_001)).encode()
        assert result.stdout == CommandOutput(
            head=whole[:500],
            tail=whole[-500:],
            size=len(whole),
            path="/home/user/out/c1.stdout",
        )
        assert "588394 bytes left out, all of it is in /home/user/out/c1" in (
            result.stdout.text.replace(str(len(whole) - 1000), "588394")
        )
        assert (result.stderr.text, result.stderr.path) == ("1\n2\n3\n", "")
        assert await used_box.read_file("out/c1.stdout", limit=10**6) == whole
        again = await used_box.execute("seq 100000", output_bytes=1000, spill_to="out/c1")
        assert (again.stdout.path, again.stdout.size) == ("", len(whole))
        assert (await used_box.execute("rm -r out")).exit_code == 0

    async def test_endless_output_is_limited_in_memory_on_disk_and_in_time(self, box: Box) -> None:
        with anyio.fail_after(30):
            result = await box.execute(
                "cat /dev/zero", timeout_s=0.5, output_bytes=4096, spill_to="/tmp/flood"
            )
        assert result.exit_code == 124
        assert len(result.stdout.head) == len(result.stdout.tail) == 2048
        assert result.stdout.size > 10_000
        status = await box.status("/tmp/flood.stdout")
        assert status is None or status.size <= 16 * 1024 * 1024

    @pytest.mark.parametrize(
        ("command", "arguments", "code"),
        [
            ("pwd", {"working_dir": "/nope"}, "not_found"),
            ("pwd", {"working_dir": "/etc/passwd"}, "invalid_input"),
            ("pwd", {"working_dir": "a\0b"}, "invalid_input"),
            ("pwd", {"working_dir": "x" * 5000}, "invalid_input"),
            (["nope"], {}, "not_found"),
            (["/etc/passwd"], {}, "permission_denied"),
            (["/home/user"], {}, "permission_denied"),
            ([], {}, "invalid_input"),
            ([""], {}, "invalid_input"),
            ("a\0b", {}, "invalid_input"),
            ("x", {"environment": {"a=b": "c"}}, "invalid_input"),
            ("x", {"environment": {"a": "\ud800"}}, "invalid_input"),
            ("x", {"timeout_s": float("inf")}, "invalid_input"),
            ("x", {"timeout_s": 0}, "invalid_input"),
            ("x", {"output_bytes": -1}, "invalid_input"),
            (["printf", "x" * 10_000_000], {}, "too_large"),
            ("cat", {"standard_input": b"x" * 20_000_000}, "too_large"),
        ],
        ids=lambda value: repr(value)[:30],
    )
    async def test_a_command_that_cannot_be_started_gives_an_error(
        self, used_box: Box, command: str, arguments: dict[str, object], code: str
    ) -> None:
        with pytest.raises(BoxFileError) as caught, anyio.fail_after(30):
            await used_box.execute(command, **arguments)  # type: ignore[arg-type]
        assert caught.value.code == code, str(caught.value)
        assert (await used_box.execute("echo well")).stdout.text == "well\n"

    async def test_calls_of_a_run_are_answered_while_a_command_floods_the_host_with_output(
        self, used_box: Box
    ) -> None:
        tools = Tools({"tool": 1})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(used_box.execute, "head -c 30000000 /dev/zero | tr '\\0' x")
            code = "print(sum(tool() for _ in range(200)))"
            assert (await play(used_box, code, tools=tools)).output == "200\n"
