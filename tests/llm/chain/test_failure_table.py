"""The table of failures in `docs/models.md` agrees with the cases that the failover tests use."""

from pathlib import Path

from tests.llm.chain.failures import FAILURES

_PAGE = Path(__file__).parents[3] / "docs" / "models.md"
_BEGIN = "| moment | failure | what happens | reason |\n|---|---|---|---|\n"


def table() -> str:
    """The rows of all cases. `test_failover.py` tests each case."""
    rows = []
    for case in FAILURES:
        happens = "the next model answers" if case.reason else "nothing is switched"
        rows.append(f"| {case.moment} | {case.what} | {happens} | {case.reason or '–'} |")
    return "\n".join(rows)


def test_the_page_has_the_table_of_every_failure_at_every_moment() -> None:
    page = _PAGE.read_text("utf-8")
    shown = page.partition(_BEGIN)[2].partition("\n\n")[0]
    assert shown == table(), f"write this into {_PAGE.name}:\n{table()}"
