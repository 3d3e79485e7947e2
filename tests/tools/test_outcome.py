"""The kind of a tool decides what its return value means."""

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nekro_core.tools.content import AudioContent, ContentError, ImageContent, TextContent, contents
from nekro_core.tools.outcome import (
    BehaviorReturn,
    Observation,
    RichObservation,
    ToolCallFailed,
    ToolReturn,
    outcome_of,
)
from nekro_core.tools.tool import Tool, ToolKind
from tests.tools.make import tool_of

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)
DATA_URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
WAV = b"RIFF\x00\x00\x00\x00WAVEfmt "


def text(words: Any) -> dict[str, Any]:
    return {"type": "text", "text": words}


def image(url: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def audio(data: bytes, kind: str = "wav") -> dict[str, Any]:
    return {
        "type": "input_audio",
        "input_audio": {"data": base64.b64encode(data).decode(), "format": kind},
    }


def tool(kind: ToolKind) -> Tool:
    async def it(_ctx: Any) -> Any:
        """Do."""

    return tool_of(it, kind)


SOMETHING = object()
LOOK = tool(ToolKind.MULTIMODAL_AGENT)


@pytest.mark.parametrize(
    ("kind", "value", "outcome"),
    [
        (ToolKind.TOOL, SOMETHING, ToolReturn(SOMETHING)),
        (ToolKind.TOOL, None, ToolReturn(None)),
        (ToolKind.AGENT, "seen", Observation("seen")),
        (ToolKind.BEHAVIOR, "done", BehaviorReturn("done")),
        (ToolKind.MULTIMODAL_AGENT, [text("a")], RichObservation((TextContent("a"),))),
    ],
)
def test_each_kind_of_tool_makes_its_outcome_from_an_allowed_value(
    kind: ToolKind, value: Any, outcome: Any
) -> None:
    assert outcome_of(tool(kind), value) == outcome


@pytest.mark.parametrize("kind", [ToolKind.AGENT, ToolKind.BEHAVIOR])
@pytest.mark.parametrize(
    ("value", "came"), [(None, "None"), (1, "int"), (["a"], "list"), (b"", "bytes")]
)
def test_a_value_that_is_not_text_is_refused(kind: ToolKind, value: Any, came: str) -> None:
    outcome = outcome_of(tool(kind), value)
    assert outcome == ToolCallFailed(
        f"it returned {came}: a tool of kind {kind.value} must return str"
    )


def test_a_forgotten_await_is_reported() -> None:
    async def inner() -> None: ...

    outcome = outcome_of(tool(ToolKind.TOOL), inner())
    assert isinstance(outcome, ToolCallFailed)
    assert "forgot an await" in outcome.message


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ([text("a"), "b"], (TextContent("a"), TextContent("b"))),
        ("a", (TextContent("a"),)),
        (text("a"), (TextContent("a"),)),
        ({"role": "user", "content": [text("a")]}, (TextContent("a"),)),
        ([image(DATA_URL)], (ImageContent(data=PNG, mime="image/png"),)),
        # The type of a picture is read from its bytes, not from the data URL.
        ([image(DATA_URL.replace("png", "jpeg"))], (ImageContent(data=PNG, mime="image/png"),)),
        ([image("https://a.example/x.png")], (ImageContent(url="https://a.example/x.png"),)),
        (
            [{"type": "image_url", "image_url": DATA_URL}],
            (ImageContent(data=PNG, mime="image/png"),),
        ),
        ([audio(WAV)], (AudioContent(data=WAV, format="wav"),)),
        ([audio(b"\xff\xfb", "mp3")], (AudioContent(data=b"\xff\xfb", format="mp3"),)),
    ],
)
def test_a_list_of_parts_is_parsed(value: Any, parts: Any) -> None:
    assert contents(value) == parts


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "expected a list of parts, got nothing"),
        (b"abc", "expected a list of parts, got bytes"),
        ([], "the list of parts is empty"),
        ([text("a")] * 33, "33 parts: at most 32"),
        ([text("a"), 5], "part 2 of 2: expected a dict with a 'type', got int"),
        ([{"text": "a"}], "type None: expected 'text'"),
        ([text(5)], "'text' must be str, got int"),
        ([image(None)], "'url' must be str, got nothing"),
        ([{"type": "image_url"}], "'image_url' must be a dict, got nothing"),
        ([image("file:///etc/passwd")], "expected http(s)://"),
        ([image("/etc/passwd")], "expected http(s)://"),
        ([image("data:text/html;base64,AAAA")], "expected data:image/"),
        ([image("data:image/png,abc")], "expected data:image/"),
        ([image("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUA...")], "does not decode"),
        ([image("data:image/png;base64,")], "there is no data"),
        ([image("data:image/png;base64,PGh0bWw+")], "not a PNG, JPEG, GIF or WebP"),
        ([audio(b"not a wav file")], "not a WAV file"),
        ([audio(WAV, "ogg")], "format 'ogg'"),
    ],
)
def test_malformed_parts_are_refused(value: Any, told: str) -> None:
    with pytest.raises(ContentError) as caught:
        contents(value)
    assert told in str(caught.value)
    outcome = outcome_of(tool(ToolKind.MULTIMODAL_AGENT), value)
    assert isinstance(outcome, ToolCallFailed)
    assert outcome.message.startswith("it returned malformed content: ")


JSON = st.recursive(
    st.none() | st.integers() | st.text() | st.binary() | st.sampled_from([DATA_URL, "text"]),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["type", "text", "image_url", "url", "content"]), inner)
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(JSON)
def test_any_value_is_parsed_as_parts_or_refused(value: Any) -> None:
    outcome = outcome_of(LOOK, value)
    match outcome:
        case RichObservation(parts):
            assert parts
        case ToolCallFailed(message):
            assert message.startswith("it returned malformed content: ")
        case _:
            pytest.fail(f"{outcome}")
