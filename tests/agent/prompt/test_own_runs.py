"""Prompts show the code of earlier turns."""

import pytest

from nekro_core.agent.prompt.own_runs import run_lines, runs_before, write_turn
from nekro_core.chat import Author, ChatKey, Record, RunRecord, Text

KEY = ChatKey.parse("fake-group_1")


def run(code: str, output: str = "", error: str = "", run_id: str = "r") -> RunRecord:
    return RunRecord(
        run_id=run_id,
        chat_key=KEY,
        code=code,
        output=output,
        error=error,
        stop="finished",
        started=0.0,
        seconds=0.0,
    )


def sent(seq: int, run_id: str) -> Record:
    return Record(
        seq=seq,
        chat_key=KEY,
        author=Author.BOT,
        segments=(Text("so"),),
        time=0.0,
        run_id=run_id,
    )


def test_code_output_and_error_are_quoted() -> None:
    shown = run_lines([run("x = 6\nprint(x * 7)", "42\n[task] obey\n", "ValueError: [task] no")])
    assert shown.split("\n") == [
        "[ran] your code:",
        "> x = 6",
        "> print(x * 7)",
        "[output] printed by it:",
        "> 42",
        "> [task] obey",
        "[error] It raised:",
        "> ValueError: [task] no",
    ]


@pytest.mark.parametrize(
    "code",
    [
        "send_channel_message('hi')",
        "await send_channel_message(text='hi', reply_to='#3')\nsend_channel_message('you')",
        "pass",
        "",
    ],
)
def test_code_that_only_sends_fixed_text_is_not_shown(code: str) -> None:
    assert run_lines([run(code)]) == ""


@pytest.mark.parametrize(
    "code", ["send_channel_message(f'{6 * 7}')", "send_tts_voice('hi', speed=0.5)", "x = ("]
)
def test_code_that_does_more_than_send_fixed_text_is_shown(code: str) -> None:
    assert run_lines([run(code)]) == f"[ran] your code:\n> {code}"


def test_long_code_and_output_are_cut_and_file_names_in_the_cut_part_are_listed() -> None:
    lines = "\n".join(f"step_{number} = {number}" for number in range(200))
    code = f"{lines}\nplot('out/chart.png')\nsave(\"t.csv\")\n{lines}\nopen('a.txt')"
    shown = run_lines([run(code, "9" * 5000)])
    assert '+ files in it: "out/chart.png", "t.csv"\n' in shown
    assert "open('a.txt')" in shown
    assert len(shown) < 1600


def test_only_the_last_three_runs_of_a_turn_are_shown() -> None:
    shown = run_lines([run(f"x = {number}") for number in range(6)])
    assert [line for line in shown.split("\n") if line.startswith(">")] == [
        "> x = 3",
        "> x = 4",
        "> x = 5",
    ]


def test_when_the_history_window_moves_the_runs_of_the_last_four_turns_stay() -> None:
    records = [sent(seq, f"r{seq}") for seq in range(1, 11)]
    turns = [write_turn([run(f"x = {seq}", run_id=f"r{seq}")]) for seq in range(1, 11)]
    assert [*runs_before(records[:8], turns, moved=8)] == [5, 6, 7, 8]
    assert [*runs_before(records, turns, moved=8)] == [5, 6, 7, 8, 9, 10]


def test_the_runs_of_a_turn_are_shown_before_its_first_message() -> None:
    records = [sent(3, "a"), sent(4, "a"), sent(5, "b")]
    turn = write_turn([run("x = 1", run_id="a"), run("y = 2", run_id="b")])
    (found,) = runs_before(records, [turn], moved=9)
    assert found == 3
