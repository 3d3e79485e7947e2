"""Questions about long conversations are answered. The weights of the search are learnt from the
conversations in ``set`` and ``development`` (``learn_ranking.py``). The conversations in
``strangers`` were written and committed before the search was tried on them, and no weight is
learnt from them."""

from collections import Counter
from contextlib import aclosing
from pathlib import Path

import pytest

from nekro_core.tools.discovery import SentenceVectors
from tests.memory.quality import measure, read_lines

HERE = Path(__file__).parent


@pytest.mark.long
@pytest.mark.parametrize("folder", ["set", pytest.param("strangers", marks=pytest.mark.slow)])
async def test_the_questions_about_the_conversations_are_answered(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At least 0.75 of the evidence is among the first 10 hits, and at least 0.82 among the first
    20."""
    async with aclosing(SentenceVectors(timeout_s=250)) as encoder:
        shares = await measure(HERE / folder, f"sqlite://{tmp_path}/set.sqlite3", encoder)
    with capsys.disabled():
        print(f"\n{folder}: evidence among the first hits: {shares}")
    assert shares["all"][10] >= 0.75
    assert shares["all"][20] >= 0.82


async def test_a_search_by_words_alone_answers_most_questions_of_the_development_conversations(
    tmp_path: Path,
) -> None:
    shares = await measure(HERE / "development", f"sqlite://{tmp_path}/set.sqlite3", None)
    assert shares["all"][10] >= 0.70
    assert shares["all"][20] >= 0.80


@pytest.mark.parametrize("folder", ["set", "strangers", "development"])
def test_the_files_of_the_conversations_have_the_format_of_the_readme(folder: str) -> None:
    for path in (HERE / folder).glob("*.messages.jsonl"):
        messages = read_lines(path)
        assert [each["n"] for each in messages] == list(range(1, len(messages) + 1)), path
        assert [each["at"] for each in messages] == sorted(each["at"] for each in messages), path
        assert all(each["text"].strip() and each["who"] for each in messages), path
        questions = read_lines(path.with_name(path.name.replace("messages", "questions")))
        for each in questions:
            assert each["evidence"], each
            assert set(each["evidence"]) <= set(range(1, len(messages) + 1)), each
        assert not Counter(each["lang"] for each in questions).keys() - {"en", "zh", "ja"}, path
