"""Tests of the results of the tools, for every backend. A backend's tests subclass `ToolResults`.

The first part compares results with their exact text. The tools were designed from a sketch that
had faults. The second part has a regression test for each of these faults. The number in the test's
name is the number of the fault. The third part tests bad input.
"""

import base64
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.sandbox.tools.caller import ToolCaller


def mkfifo(path: str) -> str:
    """Return a command that makes a FIFO. Every image can run the command."""
    return f"python3 -c 'import os; os.mkfifo(\"{path}\")'"


async def ended(call: ToolCaller, mark: str) -> bool:
    """Wait until no process ``sleep MARK`` is left. Killed processes take a moment to disappear."""
    left = f"ps ax | grep -q 'slee[p] {mark}'"
    command = f"for _ in $(seq 100); do {left} || exit 0; sleep 0.1; done; exit 1"
    return (await call.value("shell", command=command))["exit_code"] == 0


class ToolResults:
    """Needs the module's fixture ``backend``. One box serves all tests that do not end it."""

    # Results with their exact text

    @pytest.mark.parametrize(
        ("given", "content"),
        [
            (
                {"command": "printf a; exit 3"},
                'isError {"stdout":"a","stderr":"","exit_code":3}',
            ),
            ({"command": "kill -9 $$"}, 'isError {"stdout":"","stderr":"","exit_code":137}'),
            (
                {"command": "echo x; sleep 9", "timeout_ms": 200},
                'isError {"stdout":"x\\n","stderr":"","exit_code":124,"timed_out":true}',
            ),
            (
                {"command": "pwd", "working_dir": "/nope"},
                (
                    'isError {"error":{"code":"not_found",'
                    '"message":"working_dir does not exist: /nope"}}'
                ),
            ),
            ({"command": "pwd"}, '{"stdout":"/home/user\\n","stderr":"","exit_code":0}'),
        ],
    )
    async def test_the_result_of_shell(
        self, call: ToolCaller, given: dict[str, Any], content: str
    ) -> None:
        assert await call("shell", **given) == content

    async def test_the_result_of_read_file(self, call: ToolCaller, folder: str) -> None:
        data = bytes([9, 9, *range(256)])
        data += bytes(1048576 - len(data))
        encoded = base64.b64encode(data).decode()
        await call("write_file", path=f"{folder}/b.bin", content=encoded, encoding="base64")
        assert await call("read_file", path=f"{folder}/b.bin", offset=2, limit=4) == (
            '{"content":"AAECAw==","encoding":"base64","size":1048576,"truncated":true}'
        )
        await call("write_file", path=f"{folder}/t.txt", content="text")
        assert (
            await call("read_file", path=f"{folder}/t.txt", offset=10) == '{"content":"","size":4}'
        )
        assert await call("read_file", path=f"{folder}/t.txt") == '{"content":"text","size":4}'

    async def test_the_result_of_write_file(self, call: ToolCaller, folder: str) -> None:
        path = f"{folder}/d/e/t.txt"
        assert await call("write_file", path=path, content="hé") == '{"ok":true,"size":3}'
        again = await call("write_file", path=path, content="hé", append=True)
        assert again == '{"ok":true,"size":6}'

    async def test_the_result_of_glob(self, call: ToolCaller, folder: str) -> None:
        await call("shell", command="mkdir pkg; touch a.py pkg/b.py .h.py c", working_dir=folder)
        found = await call("glob", pattern="**/*.py", cwd=folder)
        assert found == '{"files":["a.py","pkg/b.py"]}'
        assert await call("glob", pattern="*.none", cwd=folder) == '{"files":[]}'

    async def test_boxes_are_made_once_and_listed(self, fresh: Callable[[str], ToolCaller]) -> None:
        lin = fresh("lin")
        assert await lin("sandbox_list") == '{"sandboxes":[]}'
        assert await lin("sandbox_create", sandbox="x") == '{"sandbox":"x","created":true}'
        assert await lin("sandbox_create", sandbox="x") == '{"sandbox":"x","created":false}'
        assert await lin("sandbox_list") == (
            '{"sandboxes":[{"name":"x","image":"node:22","status":"running"}]}'
        )
        await lin.sleep()
        assert await lin("sandbox_list") == (
            '{"sandboxes":[{"name":"x","image":"node:22","status":"sleeping"}]}'
        )
        assert await lin.code("sandbox_create", sandbox="x", image="python") == "image_mismatch"
        unavailable = await lin("sandbox_create", sandbox="y", image="no/such")
        assert "image_unavailable" in unavailable
        assert "node:22, python" in unavailable
        assert await fresh("mei")("sandbox_list") == '{"sandboxes":[]}'

    async def test_the_result_of_transfer(self, fresh: Callable[[str], ToolCaller]) -> None:
        lin = fresh("lin")
        await lin(
            "shell",
            sandbox="a",
            command="mkdir -p p/dist/sub; head -c 12000 /dev/urandom >p/dist/index.html;"
            "head -c 345 /dev/urandom >p/dist/sub/x; ln -s index.html p/dist/link;"
            "ln -s /etc/passwd p/dist/out; chmod 750 p/dist/sub/x; " + mkfifo("p/dist/pipe"),
        )
        moved = await lin.value(
            "transfer",
            from_sandbox="a",
            from_path="/home/user/p/dist",
            to_sandbox="b",
            to_path="/home/user/q/static",
            recursive=True,
        )
        assert (moved["ok"], moved["bytes"]) == (True, 12345)
        assert {each["path"].rpartition("/")[2] for each in moved["skipped"]} == {"out", "pipe"}
        found = await lin("shell", sandbox="b", command="cd q && find . | sort; readlink */link")
        assert json.loads(found)["stdout"].split() == [
            ".",
            "./static",
            "./static/index.html",
            "./static/link",
            "./static/sub",
            "./static/sub/x",
            "index.html",
        ]
        mode = await lin("shell", sandbox="b", command="stat -c %a q/static/sub/x")
        assert json.loads(mode)["stdout"] == "750\n"
        same = "md5sum < {}/index.html"
        sums = [
            (await lin.value("shell", sandbox=name, command=same.format(path)))["stdout"]
            for name, path in (("a", "p/dist"), ("b", "q/static"))
        ]
        assert sums[0] == sums[1]

    async def test_an_unknown_tool_gives_an_error(self, call: ToolCaller) -> None:
        assert await call("nope") == (
            'isError {"error":{"code":"unknown_tool","message":"Unknown tool: nope"}}'
        )

    # The sketch's faults

    async def test_1_only_the_command_is_read_by_a_shell(
        self, call: ToolCaller, folder: str
    ) -> None:
        spiked = f"{folder}/a'; touch PWNED #$(touch PWNED)`touch PWNED`\n-rf *"
        assert await call("write_file", path=f"{spiked}/f", content="x") == '{"ok":true,"size":1}'
        assert await call("read_file", path=f"{spiked}/f") == '{"content":"x","size":1}'
        done = await call.value("shell", command="pwd", working_dir=spiked)
        assert done["stdout"] == f"{spiked}\n"
        assert await call.value("glob", pattern="*", cwd=spiked) == {"files": ["f"]}
        assert await call.value("glob", pattern="$(touch PWNED)", cwd=folder) == {"files": []}
        copied = await call.value(
            "transfer",
            from_sandbox="default",
            from_path=spiked,
            to_sandbox="default",
            to_path=f"{folder}/-C $(touch PWNED)",
            recursive=True,
        )
        assert copied["bytes"] == 1
        assert (
            await call.code("shell", command="pwd", working_dir="/tmp; touch PWNED") == "not_found"
        )
        found = await call.value("shell", command="find / -name PWNED 2>/dev/null")
        assert found["stdout"] == ""

    @pytest.mark.parametrize("code", [1, 2, 42, 124, 127, 137, 139, 255])
    async def test_2_the_exit_code_of_the_command_is_returned(
        self, call: ToolCaller, code: int
    ) -> None:
        done = await call.value("shell", command=f"exit {code}")
        assert done == {"stdout": "", "stderr": "", "exit_code": code}

    async def test_3_a_timeout_kills_all_processes_that_the_command_started(
        self, call: ToolCaller
    ) -> None:
        mark = f"31{secrets.randbelow(10**6)}"
        began = time.monotonic()
        done = await call.value(
            "shell",
            command=f"trap '' TERM; (trap '' TERM; sleep {mark}) & setsid sleep {mark} & sleep 99",
            timeout_ms=300,
        )
        assert (done["exit_code"], done["timed_out"]) == (124, True)
        assert time.monotonic() - began < 60
        assert await ended(call, mark)

    async def test_4_a_slice_has_exactly_its_bytes_and_the_size_of_the_file(
        self, call: ToolCaller, folder: str
    ) -> None:
        path = f"{folder}/t"
        await call("write_file", path=path, content="aé中😀z")
        assert await call.value("read_file", path=path, offset=1, limit=2) == {
            "content": "é",
            "size": 11,
            "truncated": True,
        }
        assert await call.value("read_file", path=path, offset=2, limit=5) == {
            "content": "中",
            "size": 11,
            "truncated": True,
            "offset": 3,
            "next_offset": 6,
        }

    async def test_4_reading_a_slice_does_not_read_the_whole_file(
        self, call: ToolCaller, folder: str
    ) -> None:
        code = 'open("huge", "w").truncate(2**33)'
        await call("shell", command=f"python3 -c '{code}'", working_dir=folder)
        found = await call.value("read_file", path=f"{folder}/huge", offset=2**33 - 3)
        assert found == {"content": "AAAA", "encoding": "base64", "size": 2**33}

    async def test_5_appending_loses_nothing(self, call: ToolCaller, folder: str) -> None:
        path = f"{folder}/log"

        async def append(letter: str) -> None:
            for _ in range(5):
                line = f"{letter * 500}\n"
                assert await call.value("write_file", path=path, content=line, append=True)

        async with anyio.create_task_group() as tasks:
            for letter in "abcd":
                tasks.start_soon(append, letter)
        lines = (await call.value("read_file", path=path))["content"].splitlines()
        assert sorted(lines) == sorted(letter * 500 for letter in "abcd" for _ in range(5))

    async def test_5_appending_to_a_folder_gives_an_error(
        self, call: ToolCaller, folder: str
    ) -> None:
        assert await call.code("write_file", path=folder, content="x", append=True) in (
            "is_a_directory",
            "invalid_input",
        )

    async def test_6_bytes_are_transferred_unchanged(self, call: ToolCaller, folder: str) -> None:
        data = bytes(range(256)) * 40
        content = base64.b64encode(data).decode()
        await call("write_file", path=f"{folder}/b", content=content, encoding="base64")
        moved = await call.value(
            "transfer",
            from_sandbox="default",
            from_path=f"{folder}/b",
            to_sandbox="default",
            to_path=f"{folder}/new/c",
        )
        assert moved == {"ok": True, "bytes": len(data)}
        assert (await call.value("read_file", path=f"{folder}/new/c"))["content"] == content

    async def test_6_a_failed_transfer_gives_an_error(self, call: ToolCaller, folder: str) -> None:
        await call("shell", command="mkdir dir; echo x >file", working_dir=folder)
        await call("shell", command=mkfifo("pipe"), working_dir=folder)

        def moved(source: str, target: str, *, recursive: bool = False) -> Awaitable[str]:
            return call.code(
                "transfer",
                from_sandbox="default",
                from_path=f"{folder}/{source}",
                to_sandbox="default",
                to_path=f"{folder}/{target}",
                recursive=recursive,
            )

        assert await moved("none", "x") == "not_found"
        assert await moved("dir", "x") == "is_a_directory"
        assert await moved("pipe", "x") == "invalid_input"
        assert await moved("file", "file/below") == "invalid_input"
        assert await moved("dir", "dir/below", recursive=True) == "invalid_input"
        into = await call.value(
            "transfer",
            from_sandbox="default",
            from_path=f"{folder}/file",
            to_sandbox="default",
            to_path=f"{folder}/dir",
        )
        assert into == {"ok": True, "bytes": 2}
        assert await call.value("glob", pattern="**", cwd=f"{folder}/dir") == {"files": ["file"]}

    async def test_8_sleeping_boxes_are_listed_and_not_woken(
        self, fresh: Callable[[str], ToolCaller]
    ) -> None:
        lin = fresh("lin")
        await lin("write_file", path="note", content="milk")
        await lin.sleep()
        assert await lin("sandbox_list") == (
            '{"sandboxes":[{"name":"default","image":"python","status":"sleeping"}]}'
        )
        assert len(lin.source.made) == 1
        assert await lin("read_file", path="note") == '{"content":"milk","size":4,"woke":true}'
        assert await lin("read_file", path="note") == '{"content":"milk","size":4}'

    async def test_8_the_death_of_a_box_is_reported_once(
        self, fresh: Callable[[str], ToolCaller]
    ) -> None:
        lin = fresh("lin")
        await lin("write_file", path="note", content="milk")
        await lin.pool.boxes.save()
        await lin.source.made[0].destroy()
        woken = await lin.value("read_file", path="note")
        assert (woken["content"], woken["woke"]) == ("milk", True)
        assert "died" in woken["fault"]

    async def test_8_a_box_that_dies_during_a_command_fails_that_command(
        self, fresh: Callable[[str], ToolCaller]
    ) -> None:
        lin = fresh("lin")
        await lin("write_file", path="note", content="milk")
        await lin.pool.boxes.save()
        answers: list[str] = []

        async def command() -> None:
            answers.append(await lin.code("shell", command="echo once >>count; sleep 60"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(command)
            with anyio.fail_after(30):
                while not (await lin.value("glob", pattern="count"))["files"]:
                    await anyio.sleep(0.02)
            await lin.source.made[0].destroy()
        assert answers == ["sandbox_failed"]
        assert await lin.value("glob", pattern="*") == {"files": ["note"], "woke": True}

    async def test_10_no_message_reveals_the_host(self, call: ToolCaller, folder: str) -> None:
        told = [
            await call("read_file", path="/etc/shadow"),
            await call("read_file", path=f"{folder}/none"),
            await call("write_file", path="/app/uploads/../../etc/x", content=""),
            await call("glob", pattern="*", cwd="/nope"),
            await call("browse", port=8000),
        ]
        for text in told:
            assert text.startswith('isError {"error":{"code":')
            assert "Traceback" not in text
            assert str(Path.cwd()) not in text

    async def test_11_long_output_is_stored_in_the_box(self, call: ToolCaller) -> None:
        done = await call.value("shell", command="seq 200000; seq 3 >&2")
        assert (done["exit_code"], done["stderr"]) == (0, "1\n2\n3\n")
        assert done["stdout_truncated"] is True
        assert done["stdout"].startswith("1\n2\n3\n")
        assert done["stdout"].endswith("199999\n200000\n")
        assert done["stdout_path"] in done["stdout"]
        assert len(done["stdout"]) < 20_000
        whole = await call.value("shell", command=f"wc -l <{done['stdout_path']}")
        assert whole["stdout"] == "200000\n"

    async def test_11_calls_for_one_box_run_at_the_same_time(
        self, call: ToolCaller, folder: str
    ) -> None:
        """Each command waits for the other one. If they ran one after another, they would wait
        forever."""

        async def meet(mine: str, other: str) -> None:
            command = f"touch {mine}; until [ -e {other} ]; do sleep 0.01; done"
            done = await call.value("shell", command=command, working_dir=folder)
            assert done["exit_code"] == 0

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(meet, "a", "b")
                tasks.start_soon(meet, "b", "a")

    async def test_11_a_cancelled_command_is_ended(self, call: ToolCaller) -> None:
        mark = f"32{secrets.randbelow(10**6)}"
        with anyio.move_on_after(0.3):
            await call("shell", command=f"sleep {mark} & sleep {mark}")
        assert await ended(call, mark)

    async def test_12_no_name_reaches_another_owners_box(
        self, fresh: Callable[[str], ToolCaller]
    ) -> None:
        lin, mei = fresh("lin"), fresh("mei")
        await lin("write_file", path="secret", content="lin's")
        assert await mei.code("read_file", path="secret") == "not_found"
        for name in ("lin:default", "../lin/default", "lin/default"):
            assert await mei.code("read_file", path="secret", sandbox=name) == "invalid_input"

    # Bad input

    @pytest.mark.parametrize(
        ("tool", "given", "code"),
        [
            ("shell", {"command": "x\0y"}, "invalid_input"),
            ("shell", {"command": "x" * 200_000}, "too_large"),
            ("shell", {"command": "ls", "working_dir": "/etc/passwd"}, "invalid_input"),
            ("shell", {"command": "ls", "timeout_ms": 0}, "invalid_input"),
            ("shell", {"command": "ls", "timeout_ms": 10**9}, "invalid_input"),
            ("shell", {"command": "ls", "sandbox": "a/b"}, "invalid_input"),
            ("read_file", {"path": "none"}, "not_found"),
            ("read_file", {"path": "."}, "is_a_directory"),
            ("read_file", {"path": "/dev/zero"}, "path_escape"),
            ("read_file", {"path": "a", "offset": -1}, "invalid_input"),
            ("read_file", {"path": "a", "limit": 0}, "invalid_input"),
            ("write_file", {"path": ".", "content": ""}, "is_a_directory"),
            ("write_file", {"path": "/etc/x", "content": ""}, "path_escape"),
            ("write_file", {"path": "x", "content": "?", "encoding": "base64"}, "invalid_input"),
            ("write_file", {"path": "x", "content": "x" * (9 << 20)}, "too_large"),
            ("write_file", {"path": "n" * 300, "content": ""}, "invalid_input"),
            ("glob", {"pattern": ""}, "invalid_input"),
            ("glob", {"pattern": "*", "cwd": "none"}, "not_found"),
            ("browse", {"port": 0}, "invalid_input"),
            ("browse", {"port": 65536}, "invalid_input"),
            ("browse", {"port": 80.5}, "invalid_input"),
            ("browse", {"port": 3128}, "invalid_input"),
            ("browse", {"port": 8000}, "sandbox_failed"),
            ("sandbox_create", {"sandbox": ".."}, "invalid_input"),
            ("sandbox_create", {"sandbox": "x", "image": ""}, "invalid_input"),
            ("sandbox_create", {"sandbox": "x", "sleep_after_ms": 0}, "invalid_input"),
        ],
    )
    async def test_bad_input_gives_an_error_with_its_code(
        self, call: ToolCaller, tool: str, given: dict[str, Any], code: str
    ) -> None:
        assert await call.code(tool, **given) == code

    async def test_links_do_not_lead_out_of_the_box(self, call: ToolCaller, folder: str) -> None:
        await call("shell", command="ln -s /etc out; echo x >f", working_dir=folder)
        await call("shell", command=mkfifo("pipe"), working_dir=folder)
        for tool, given in [
            ("read_file", {"path": f"{folder}/out/passwd"}),
            ("write_file", {"path": f"{folder}/out/passwd", "content": ""}),
            ("glob", {"pattern": "*", "cwd": f"{folder}/out"}),
        ]:
            assert await call.code(tool, **given) in ("permission_denied", "path_escape")
        assert await call.code("read_file", path=f"{folder}/pipe") == "invalid_input"
        assert await call.code("write_file", path=f"{folder}/f/x", content="") == "invalid_input"

    async def test_output_that_is_not_text_is_returned_as_json(self, call: ToolCaller) -> None:
        done = await call.value(
            "shell", command=r"printf 'a\377\000\033[31m\355\240\200\357\273\277'"
        )
        assert done["stdout"].startswith("a\ufffd\0\x1b[31m")

    async def test_a_full_box_gives_an_error_and_can_still_be_used(
        self, fresh: Callable[[str], ToolCaller]
    ) -> None:
        lin = fresh("lin")
        await lin("shell", command="head -c 30M /dev/zero >full; true")
        content = "x" * (1 << 20)
        assert await lin.code("write_file", path="more", content=content) == "too_large"
        await lin("shell", command="rm full")
        assert await lin("write_file", path="more", content="x") == '{"ok":true,"size":1}'
