"""Cells run commands in new boxes."""

from typing import Any

import anyio
import pytest

from nekro_core.api.reactive import (
    CommandTimeout,
    ExecResult,
    OutputMissing,
    ReactiveError,
    Resources,
    Unreadable,
    cell,
    computed,
    exec_,
    load,
    scope,
    settled,
)
from nekro_core.sandbox.box import BoxFileError, ImageUnavailable
from tests.reactive.conftest import Source

pytestmark = pytest.mark.jail


async def test_a_command_runs_again_whenever_it_changes(
    resources: Resources, source: Source
) -> None:
    word = cell("one")
    async with scope(resources):
        run = exec_([["echo", word]])
        assert run.pending
        await settled()
        assert (run.result.stdout, run.result.exit_code, run.result.ok) == ("one\n", 0, True)
        word.set("two; exit 7 $(id)")
        assert (run.pending, run.result) == (True, None)
        await settled()
        assert run.result.stdout == "two; exit 7 $(id)\n"
        assert source.alive == 0
    assert len(source.taken) == 2


@pytest.mark.parametrize("nothing", [None, "", [], ["true", None], ["true", ""], [["echo", None]]])
async def test_without_a_command_nothing_runs(
    nothing: Any, resources: Resources, source: Source
) -> None:
    async with scope(resources):
        run = exec_(computed(lambda: nothing), files={"a": "text"})
        await settled()
        assert (run.pending, run.result, run.error) == (False, None, None)
    assert source.taken == []


async def test_steps_share_a_shell_and_stop_at_the_first_failure(
    resources: Resources,
) -> None:
    async with scope(resources):
        run = exec_(
            [
                "mkdir build && cd build && export WORD=hi",
                "pwd; echo $WORD",
                ["sh", "-c", "echo oops >&2; exit 3"],
                "echo never",
            ]
        )
        result = (await run.settled()).result
    assert result is not None
    assert result.stdout == "/home/user/build\nhi\n"
    assert (result.stderr, result.exit_code, result.ok) == ("oops\n", 3, False)
    assert str(result) == "/home/user/build\nhi\noops\n"


@pytest.mark.parametrize(
    ("command", "exit_code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), (["false", "true"], 1), (["exit 5"], 5)],
)
async def test_the_exit_code_is_a_result(
    command: Any, exit_code: int, resources: Resources
) -> None:
    async with scope(resources):
        state = await exec_(command).settled()
    assert state.error is None
    assert state.result is not None
    assert state.result.exit_code == exit_code


async def test_files_are_written_before_and_read_after_a_command(resources: Resources) -> None:
    text = cell("a'b\n\"c\" $(id) ``` '''")
    async with scope(resources):
        run = exec_(
            "wc -c < in/data.txt > size; cp in/data.txt copy; printf '{\"n\": 1}' > n.json",
            files={
                "in/data.txt": text,
                "size": "text",
                "copy": "bytes",
                "/home/user/n.json": "json",
            },
        )
        files = (await run.settled()).result.files
        assert files == {
            "size": f"{len(text())}\n",
            "copy": text().encode(),
            "/home/user/n.json": {"n": 1},
        }
        text.set("")
        assert (await run.settled()).result.files["copy"] == b"", (
            "an empty file must be in the result"
        )
        text.set(None)
        assert (run.pending, run.result) == (False, None)


async def test_the_content_json_of_a_written_file_is_not_mistaken_for_the_kind_of_a_file_to_read(
    resources: Resources,
) -> None:
    files = {"word": cell("json"), "bytes.bin": b"bytes", "text": "a text"}
    async with scope(resources):
        run = exec_("cat word bytes.bin text", files=files)
        assert (await run.settled()).result.stdout == "jsonbytesa text"


async def test_an_empty_word_of_a_command_is_passed_on(resources: Resources) -> None:
    async with scope(resources):
        run = exec_([["printf", "[%s]", "", "a b"]])
        assert (await run.settled()).result.stdout == "[][a b]"


async def test_files_in_a_list_of_paths_are_read_as_text_and_missing_ones_are_left_out(
    resources: Resources,
) -> None:
    async with scope(resources):
        run = exec_("mkdir dist; echo x > dist/a.js; exit 2", files=["dist/a.js", "dist/b.js"])
        result = (await run.settled()).result
    assert result is not None
    assert (result.exit_code, result.files) == (2, {"dist/a.js": "x\n"})


async def test_errors_of_a_command_become_the_error_of_the_cell(resources: Resources) -> None:
    cases: list[tuple[type[Exception], str, Any]] = [
        (OutputMissing, "no file gone", lambda: exec_("true", files=["gone"])),
        (Unreadable, "no json", lambda: exec_("echo { > a", files={"a": "json"})),
        (BoxFileError, "", lambda: exec_("mkdir a", files=["a"])),
        (ImageUnavailable, "gone:1", lambda: exec_("true", image="gone:1")),
        (ReactiveError, "a text or a list", lambda: exec_(cell(7))),
        (ReactiveError, "a list of words", lambda: exec_([["echo", 7]])),
    ]
    async with scope(resources):
        runs = [(kind, words, make()) for kind, words, make in cases]
        await settled()
        for kind, words, run in runs:
            assert isinstance(run.error, kind), run.state
            assert words in str(run.error)
            assert run.result is None


async def test_invalid_file_bindings_raise_at_the_call(resources: Resources) -> None:
    async with scope(resources):
        with pytest.raises(ReactiveError, match="expected a list of paths"):
            exec_("true", files="a.txt")
        with pytest.raises(ReactiveError, match="'a' is bound to 7"):
            exec_("true", files={"a": 7})


async def test_a_command_over_its_time_limit_is_stopped(resources: Resources) -> None:
    async with scope(resources):
        run = exec_("echo started; sleep 60", timeout_s=2)
        error = (await run.settled()).error
    assert isinstance(error, CommandTimeout)
    assert (error.stdout, "over 2 s" in str(error)) == ("started\n", True)


async def test_long_output_is_cut_and_marked(resources: Resources) -> None:
    async with scope(resources):
        run = exec_("yes | head -c 3000000; echo end")
        result = (await run.settled()).result
    assert result is not None
    assert result.truncated
    assert result.stdout.endswith("y\nend\n")
    assert len(result.stdout) < 1_100_000


async def test_a_cancelled_run_leaves_no_box(resources: Resources, source: Source) -> None:
    command = cell("sleep 60")
    async with scope(resources):
        run = exec_(command)
        while not source.alive:
            await anyio.sleep(0.01)
        command.set("echo quick")
        with anyio.fail_after(30):
            assert (await run.settled()).result.stdout == "quick\n"
        command.set("sleep 60")
        while not source.alive:
            await anyio.sleep(0.01)
    assert source.alive == 0


async def test_a_command_that_needs_the_result_of_another_runs_after_it(
    resources: Resources,
) -> None:
    order = cell("b\na\n")
    async with scope(resources):
        first = exec_("sort words", files={"words": order, "sorted": "x"})
        second = exec_(
            computed(lambda: first.result and first.result.ok and "wc -l < words"),
            files={"words": computed(lambda: first.result and first.result.stdout)},
        )
        assert (await second.settled()).result.stdout.strip() == "2"
        order.set("a\nb\nc\n")
        assert (await second.settled()).result.stdout.strip() == "3"


async def test_a_whole_result_can_be_an_input(resources: Resources) -> None:
    async def describe(run: ExecResult) -> str:
        return f"{run.exit_code}: {run.stdout.strip()}, {run.files['n']}"

    async with scope(resources):
        run = exec_("echo hi; printf 7 > n; exit 2", files={"n": "json"})
        described = load(describe, run=run)
        assert (await described.settled()).result == "2: hi, 7"


async def test_without_boxes_the_error_says_so() -> None:
    async with scope(Resources()):
        assert "no boxes" in str((await exec_("true").settled()).error)
