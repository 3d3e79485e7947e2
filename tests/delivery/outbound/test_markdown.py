"""A platform with markup gets the model's Markdown. Any other platform gets the same text without
marks."""

from nekro_core.chat import Mention, Segment, Text
from nekro_core.delivery.adapter import Capabilities
from nekro_core.delivery.markdown.fences import open_fence
from nekro_core.delivery.outbound.readable import readable_segments
from nekro_core.delivery.outbound.split import split

INLINE = frozenset({Text, Mention})
PLAIN = Capabilities(inline=INLINE, alone=frozenset(), text_length=60)
MARKUP = Capabilities(inline=INLINE, alone=frozenset(), text_length=60, markdown=True)


def texts(segments: tuple[Segment, ...]) -> list[str]:
    return [each.text for each in segments if isinstance(each, Text)]


def test_a_platform_without_markup_gets_no_marks() -> None:
    said = (Mention("1", "Lin"), Text(" **done**", markdown=True))
    assert texts(readable_segments(said, PLAIN)) == [" done"]


def test_a_platform_with_markup_gets_the_markdown() -> None:
    said = (Text("**done**", markdown=True),)
    assert readable_segments(said, MARKUP) is said


def test_the_text_of_a_plugin_is_never_changed() -> None:
    said = (Text("**not mine**"),)
    assert readable_segments(said, PLAIN) is said


def test_if_the_rewriting_of_markdown_is_off_people_see_what_the_model_wrote() -> None:
    said = (Text("**done**", markdown=True),)
    assert texts(readable_segments(said, PLAIN, enabled=False)) == ["**done**"]
    assert readable_segments(said, MARKUP, enabled=False) == (Text("**done**"),)


def test_a_table_that_would_get_too_long_by_alignment_stays_unchanged() -> None:
    source = "|a|b|\n|-|-|\n|1|2|\n|long long long long|2|\n|1|2|\n"
    assert len(source) <= 60
    assert texts(readable_segments((Text(source, markdown=True),), PLAIN)) == [source]


def test_a_block_of_code_that_is_cut_is_closed_and_opened_again() -> None:
    code = "\n".join(f"line {number} of it" for number in range(8))
    source = f"see:\n```python\n{code}\n```\nend"
    pieces = split((Text(source, markdown=True),), MARKUP)
    shown = [texts(piece.segments)[0] for piece in pieces]
    assert len(shown) > 2
    assert all(len(each) <= 60 for each in shown)
    assert all(open_fence(each) == "" for each in shown)
    assert all(each.startswith("```python\n") for each in shown[1:-1])
    lines = [line for each in shown for line in each.split("\n") if not line.startswith("```")]
    assert lines == ["see:", *code.split("\n"), "end"]
