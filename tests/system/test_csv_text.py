"""Tables are written as CSV for spreadsheet programs."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.system.csv_text import csv_of


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =cmd|x"])
def test_a_text_that_looks_like_a_formula_is_marked_as_text(text: str) -> None:
    ((_,), (cell,)) = csv.reader(io.StringIO(csv_of(("name",), [(text,)]), newline=""))
    assert cell == f"'{text}"


def test_numbers_stay_numbers() -> None:
    assert csv_of(("a", "b", "c"), [(-1, 0.5, None)]) == "a,b,c\r\n-1,0.5,\r\n"


@given(
    st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1)
)
def test_a_csv_reader_gets_the_same_texts_back(cells: list[str]) -> None:
    text = csv_of([f"c{number}" for number in range(len(cells))], [cells])
    _, row = csv.reader(io.StringIO(text, newline=""))
    assert [cell.removeprefix("'") for cell in row] == [cell.removeprefix("'") for cell in cells]
