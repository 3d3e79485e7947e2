"""`nekro doctor` checks whether the scanner, which cuts code into statements, works on the
interpreter that runs it."""

import ast
import re

import pytest

from nekro_core.agent.turn import code_statements, code_stream
from nekro_core.app import health as doctor


def test_this_interpreter_cuts_every_sample_correctly() -> None:
    assert code_stream.misread_samples() == []
    finding = doctor.code_stream()
    assert (finding.area, finding.ok) == ("code", True)


def test_samples_are_python_and_each_part_is_a_statement() -> None:
    for sample in code_stream._SAMPLES:
        assert len(ast.parse("".join(sample)).body) == len(sample)
        assert all(len(ast.parse(part).body) == 1 for part in sample)


@pytest.mark.parametrize(
    ("patterns", "quote", "wrong"),
    [
        # with this pattern, Python of Debian 12 finds a wrong end
        ("_STRING_STOP", '"""', r'\\.|"'),
        ("_STRING_STOP", "'''", r"\\.|'"),
        ("_STRING_STOP", "'", r"'|\n"),
        ("_FORMATTED_STOP", "'", r"\\.|'|\n|\{|\}"),
        ("_FORMATTED_STOP", '"""', r'\\.|"|\{|\}'),
    ],
)
def test_doctor_reports_an_interpreter_that_reads_strings_wrongly(
    monkeypatch: pytest.MonkeyPatch, patterns: str, quote: str, wrong: str
) -> None:
    monkeypatch.setitem(getattr(code_statements, patterns), quote, re.compile(wrong, re.DOTALL))
    finding = doctor.code_stream()
    assert finding.ok is False
    assert "this Python cuts replies of the model wrongly" in finding.seen
    assert repr(code_stream.misread_samples()[0]) in finding.seen
    assert "make clean" in finding.remedy
    assert "make run PYTHON=python3.12" in finding.remedy
