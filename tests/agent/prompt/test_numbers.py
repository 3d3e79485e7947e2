"""A prompt shows messages with numbers, and models write these numbers in several spellings."""

import pytest

from nekro_core.agent.prompt.numbers import seq_of


@pytest.mark.parametrize(
    ("text", "seq"),
    [("#311", 311), ("311", 311), (" ＃３１１ ", 311), ("# 311", 311), ("#", None), ("a311", None),
     ("#-1", None), ("3" * 16, None), ("#3.1", None), ("", None)],
)  # fmt: skip
def test_a_number_is_read_in_the_spellings_of_models(text: str, seq: int | None) -> None:
    assert seq_of(text) == seq
