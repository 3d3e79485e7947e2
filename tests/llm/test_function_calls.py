"""Native function calls are assembled from pieces and written into requests. Parts that are missing
are never guessed."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nekro_core.llm.events import parse_chunk
from nekro_core.llm.function_calls import (
    MAX_CALLS,
    FunctionCallAssembler,
    FunctionCallDelta,
    TooManyFunctionCalls,
)
from nekro_core.llm.http_model import HttpChatModel
from nekro_core.llm.model import (
    ChatRequest,
    FunctionCall,
    ModelProfile,
    PromptMessage,
    ReplyBroken,
    ReplyFinished,
    RequestUsage,
    TextPart,
)
from nekro_core.llm.settings import LLMSettings
from tests.llm.conformance import (
    DICE,
    ChatModelConformance,
    FunctionCallConformance,
    ask,
    calls_of,
    listen,
    words_of,
)
from tests.peers.scripted_model import Answer, Call, ScriptedModelServer, call_pieces

TWO_DICE = (Call(name="roll_dice", arguments={"sides": 6}), Call("roll_dice", {"sides": 20}))
SPLITS = ("pieces", "mixed", "whole", "objects", "no_index", "same_index")


def settings_for(server: ScriptedModelServer) -> LLMSettings:
    return LLMSettings(base_url=server.base_url, model="scripted", retries=0)


class TestCallsOverHttp(ChatModelConformance, FunctionCallConformance):
    @pytest.fixture
    async def model(self):
        async with ScriptedModelServer(lambda _: "one two three four five six") as server:
            model = HttpChatModel(settings_for(server))
            yield model
            await model.aclose()

    @pytest.fixture(params=SPLITS)
    async def calling_model(self, request: pytest.FixtureRequest):
        answer = Answer(chunks=["Roll", "ing."], calls=TWO_DICE, split=request.param)
        async with ScriptedModelServer(lambda _: answer) as server:
            model = HttpChatModel(settings_for(server))
            yield model
            await model.aclose()


async def deltas_of(answer: Answer) -> tuple[list[Any], BaseException | None]:
    """All deltas of a reply, and the error at its end."""
    found: list[Any] = []
    async with ScriptedModelServer([answer]) as server:
        model = HttpChatModel(settings_for(server))
        try:
            async with model.stream(ask("Go.", functions=(DICE,))) as deltas:
                async for delta in deltas:
                    found.append(delta)  # noqa: PERF401 (what came before an error is kept)
        except ReplyBroken as error:
            return found, error
        finally:
            await model.aclose()
    return found, None


async def test_a_reply_may_consist_of_calls_only() -> None:
    call, usage, end = (await deltas_of(Answer(calls=TWO_DICE[:1])))[0]
    assert call.arguments == {"sides": 6}
    assert isinstance(usage, RequestUsage)
    assert not usage.estimated
    assert end == ReplyFinished("stop")


async def test_the_tokens_of_calls_are_estimated_if_the_provider_does_not_count_them() -> None:
    *_, usage, _end = (await deltas_of(Answer(calls=TWO_DICE, usage=False)))[0]
    assert usage.estimated
    assert usage.completion_tokens > 5


async def test_a_call_that_the_token_limit_cut_has_a_problem() -> None:
    cut = (TWO_DICE[0], Call("roll_dice", '{"sides": 2'))
    found, _ = await deltas_of(Answer(calls=cut, reason="length"))
    whole, half = calls_of(found)
    assert not whole.problem
    assert "limit of tokens" in half.problem
    assert found[-1] == ReplyFinished("length")


async def test_the_last_call_before_a_broken_connection_has_a_problem() -> None:
    calls = (TWO_DICE[0], Call("delete_all", {}))
    found, error = await deltas_of(Answer(calls=calls, then="break"))
    whole, half = calls_of(found)
    assert not whole.problem
    assert "broke off" in half.problem
    assert isinstance(found[-1], RequestUsage)
    assert isinstance(error, ReplyBroken)


async def test_a_reply_with_endless_calls_is_cut() -> None:
    found, error = await deltas_of(Answer(calls=[Call("roll_dice")] * (MAX_CALLS + 1)))
    assert "more than" in str(error)
    assert len(calls_of(found)) == MAX_CALLS


async def test_the_request_body_contains_functions_calls_and_results() -> None:
    call = FunctionCall(call_id="a1", name="roll_dice", written='{"sides":6}')
    garbled = FunctionCall(call_id="b2", name="", written='{"sides', problem="no JSON")
    request = ChatRequest(
        messages=(
            PromptMessage.of("user", "Roll."),
            PromptMessage("assistant", (), calls=(call, garbled)),
            PromptMessage("tool", (TextPart("4"),), answers="a1"),
            PromptMessage("tool", (TextPart("no"),), answers="b2"),
        ),
        functions=(DICE,),
    )
    async with ScriptedModelServer(["Four."]) as server:
        model = HttpChatModel(settings_for(server))
        assert words_of(await listen(model, request)) == "Four."
        await model.aclose()
    (asked,) = server.requests
    assert asked.body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "roll_dice",
                "description": "Roll a die.",
                "parameters": DICE.parameters,
            },
        }
    ]
    _, said, *answers = asked.messages
    assert said["content"] is None
    assert [each["function"] for each in said["tool_calls"]] == [
        {"name": "roll_dice", "arguments": '{"sides":6}'},
        {"name": "unknown", "arguments": "{}"},
    ]
    assert answers == [
        {"role": "tool", "content": "4", "tool_call_id": "a1"},
        {"role": "tool", "content": "no", "tool_call_id": "b2"},
    ]
    assert asked.results == ["4", "no"]


async def test_functions_are_not_sent_to_a_model_that_does_not_support_them() -> None:
    async with ScriptedModelServer(["Hello."]) as server:
        model = HttpChatModel(settings_for(server), profile=ModelProfile(name="plain"))
        await listen(model, ask("Hi.", functions=(DICE,)))
        await model.aclose()
    assert "tools" not in server.requests[0].body


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("", ""),
        (" {} ", ""),
        ('{"sides": 6}', ""),
        ('{"sides": 6', "no JSON"),
        ("sides=6", "no JSON"),
        ('{"sides": 6} {"sides": 7}', "no JSON"),
        ('{"sides": 6, "sides": 7}', "stands twice"),
        ('{"sides": NaN}', "NaN"),
        ('{"sides": 1' + "0" * 5000 + "}", "no JSON"),
        ("[6]", "no JSON object"),
        ("null", "no JSON object"),
        ('"{}"', "no JSON object"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_arguments_are_parsed_strictly(written: str, problem: str) -> None:
    calls = FunctionCallAssembler()
    calls.feed(FunctionCallDelta(index=0, call_id="a", name="roll_dice", arguments=written))
    (call,) = calls.finish()
    assert (problem in call.problem) if problem else not call.problem
    assert not (call.problem and call.arguments)
    assert len(call.problem) < 400


@pytest.mark.parametrize(
    "pieces",
    [
        # Each piece repeats the name; the second piece has an empty id.
        [(0, "a", "f", '{"n"'), (0, "", "f", ": 1}"), (1, "b", "f", '{"n": 2}')],
        # The name comes in the second piece.
        [(0, "a", "", ""), (0, "", "f", ""), (0, "", "", '{"n": 1}'), (1, "b", "f", '{"n": 2}')],
        # There are no ids.
        [(0, "", "f", '{"n": 1}'), (1, "", "f", '{"n": 2}')],
        # Both calls have the same id.
        [(0, "a", "f", '{"n": 1}'), (1, "a", "f", '{"n": 2}')],
        # There is no index and no id, so a name begins a new call.
        [(None, "", "f", '{"n"'), (None, "", "", ": 1}"), (None, "", "f", '{"n": 2}')],
    ],
)
def test_pieces_in_the_forms_that_endpoints_send_are_assembled(pieces: list[Any]) -> None:
    calls = FunctionCallAssembler()
    for index, call_id, name, arguments in pieces:
        calls.feed(FunctionCallDelta(index=index, call_id=call_id, name=name, arguments=arguments))
    first, second = calls.finish()
    assert (first.name, first.arguments) == ("f", {"n": 1})
    assert (second.name, second.arguments) == ("f", {"n": 2})
    assert first.call_id != second.call_id


def test_a_call_without_a_name_has_a_problem() -> None:
    calls = FunctionCallAssembler()
    calls.feed(FunctionCallDelta(index=0, arguments="{}"))
    (call,) = calls.finish()
    assert call.problem
    assert call.call_id


def test_more_calls_than_the_limit_raise_an_error() -> None:
    calls = FunctionCallAssembler()
    for number in range(MAX_CALLS):
        calls.feed(FunctionCallDelta(index=number))
    with pytest.raises(TooManyFunctionCalls):
        calls.feed(FunctionCallDelta(index=MAX_CALLS))


@pytest.mark.parametrize(
    "garbage",
    [None, "roll", [None], [{"function": None}], [{"function": {"name": 3, "arguments": 4}}]],
)
def test_malformed_calls_in_a_chunk_cause_no_error(garbage: Any) -> None:
    parse_chunk({"choices": [{"delta": {"tool_calls": garbage}}]})


ARGUMENTS = st.dictionaries(
    st.text(max_size=8), st.one_of(st.integers(-(2**53), 2**53), st.text(max_size=20)), max_size=4
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(ARGUMENTS, min_size=1, max_size=5),
    st.sampled_from(SPLITS),
    st.integers(),
    st.booleans(),
)
def test_calls_are_assembled_correctly_however_they_are_split(
    made: list[dict[str, Any]], split: Any, seed: int, said_again: bool
) -> None:
    calls = [Call("f", arguments) for arguments in made]
    answer = Answer(calls=calls, split=split, seed=seed, said_again=said_again)
    assembly = FunctionCallAssembler()
    for piece in call_pieces(answer):
        chunk = json.loads(json.dumps({"choices": [{"delta": {"tool_calls": [piece]}}]}))
        for event in parse_chunk(chunk):
            assert isinstance(event, FunctionCallDelta)
            assembly.feed(event)
    found = assembly.finish()
    assert [call.arguments for call in found] == made
    assert not any(call.problem for call in found)
    assert len({call.call_id for call in found}) == len(found)
