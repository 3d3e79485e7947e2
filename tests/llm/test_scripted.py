"""`ScriptedModel` answers from a script, in the process of the test."""

import anyio
import pytest

from nekro_core.llm.modalities import IMAGE_NOTE
from nekro_core.llm.model import (
    ChatRequest,
    FunctionCall,
    ImagePart,
    ModelProfile,
    ModelUnreachable,
    PromptMessage,
    QuotaExceeded,
    ReplyFinished,
    RequestRejected,
    RequestUsage,
    TextDelta,
    TextPart,
)
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel
from tests.llm.conformance import (
    ChatModelConformance,
    FunctionCallConformance,
    ask,
    listen,
    words_of,
)


class TestScriptedModel(ChatModelConformance, FunctionCallConformance):
    @pytest.fixture
    def model(self) -> ScriptedModel:
        return ScriptedModel(lambda request: "one two three four five six")

    @pytest.fixture
    def calling_model(self) -> ScriptedModel:
        calls = [
            FunctionCall(call_id=str(n), name="roll_dice", arguments={"sides": n}) for n in (6, 20)
        ]
        return ScriptedModel(lambda request: ScriptedAnswer(chunks=["Rolling."], calls=calls))


class TestBlindScriptedModel(ChatModelConformance):
    @pytest.fixture
    def model(self) -> ScriptedModel:
        return ScriptedModel(lambda request: "one two three", profile=ModelProfile(name="blind"))


async def test_replies_come_in_order_and_requests_are_recorded() -> None:
    model = ScriptedModel(["first", "second"])
    assert words_of(await listen(model, ask("a"))) == "first"
    assert words_of(await listen(model, ask("b"))) == "second"
    with pytest.raises(RequestRejected, match="no reply for request 3"):
        await listen(model, ask("c"))
    assert [request.messages[0].parts[0].text for request in model.requests] == ["a", "b", "c"]


async def test_an_error_in_the_script_is_raised_at_its_position() -> None:
    model = ScriptedModel(
        [QuotaExceeded("slow down", 3.0), ScriptedAnswer(chunks=["half", ModelUnreachable("gone")])]
    )
    with pytest.raises(QuotaExceeded, match="slow down"):
        await listen(model, ask("a"))
    heard: list[str] = []
    with pytest.raises(ModelUnreachable):
        async with model.stream(ask("b")) as deltas:
            heard.extend([delta.text async for delta in deltas])
    assert heard == [] or heard == ["half"]
    assert model.open_streams == 0


async def test_a_script_can_hold_the_reply_back() -> None:
    go_on = anyio.Event()

    async def chunks():
        yield "send('now')\n"
        await go_on.wait()
        yield "rest"

    model = ScriptedModel([chunks()])
    async with model.stream(ask("a")) as deltas:
        assert await anext(deltas) == TextDelta("send('now')\n")
        assert model.open_streams == 1
        go_on.set()
        rest = [delta async for delta in deltas]
    assert rest[0] == TextDelta("rest")
    assert isinstance(rest[-1], ReplyFinished)


async def test_usage_and_end_reason_come_from_the_script() -> None:
    usage = RequestUsage(prompt_tokens=7, completion_tokens=3)
    model = ScriptedModel([ScriptedAnswer(chunks=["x", 0.0], usage=usage, reason="length")])
    assert await listen(model, ask("a")) == [TextDelta("x"), usage, ReplyFinished("length")]


async def test_a_scripted_model_without_vision_gets_a_note() -> None:
    model = ScriptedModel(["ok"], profile=ModelProfile(name="blind"))
    picture = PromptMessage("user", (TextPart("look"), ImagePart(b"png")))
    await listen(model, ChatRequest(messages=(picture,), grammar="root ::= [a-z]"))
    assert model.requests[0].messages[0].parts == (TextPart("look"), TextPart(IMAGE_NOTE))
    assert model.requests[0].grammar == ""
