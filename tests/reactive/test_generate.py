"""A cell can hold a model's answer. The model may call tools for this answer."""

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from nekro_core.api.reactive import (
    LoopTooLong,
    ModelTool,
    ReactiveError,
    Resources,
    batch,
    cell,
    computed,
    generate_text,
    scope,
    settled,
)
from nekro_core.llm.model import (
    ChatRequest,
    FunctionCall,
    ModelProfile,
    PromptMessage,
    QuotaExceeded,
    TextPart,
)
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel
from nekro_core.tools.outcome import ToolFailure


def text_of(message: PromptMessage) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))


def echo(request: ChatRequest) -> str:
    return f"you said {text_of(request.messages[-1])}"


def calls(*made: tuple[str, Mapping[str, Any]], words: str = "") -> ScriptedAnswer:
    return ScriptedAnswer(
        chunks=[words] if words else (),
        calls=tuple(
            FunctionCall(call_id=f"c{number}", name=name, arguments=arguments)
            for number, (name, arguments) in enumerate(made)
        ),
    )


class Bench:
    """Makes tools that record their calls."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.place: Any = cell("bench")

    def tool(self, name: str, answer: str | Exception = "done") -> ModelTool:
        async def call(arguments: Mapping[str, Any]) -> str:
            self.asked.append(f"{name} {arguments.get('what', '')}".strip())
            if isinstance(answer, Exception):
                raise answer
            return answer

        schema = {"type": "object", "properties": {"what": {"type": "string"}}}
        return ModelTool(
            name=name, description="A tool.", parameters=schema, call=call, about=self.place
        )

    def tools(self, *names: str, **answers: str | Exception) -> dict[str, ModelTool]:
        made = {name: self.tool(name) for name in names}
        return made | {name: self.tool(name, answer) for name, answer in answers.items()}


async def test_a_changed_prompt_asks_again_and_a_known_prompt_does_not() -> None:
    model, prompt = ScriptedModel(echo), cell("")
    async with scope(Resources(model=model)):
        answer = generate_text(prompt, system="Be brief.", temperature=0.5, max_tokens=99)
        assert (answer.pending, answer.result, answer.request_hash) == (False, None, "")
        hashes = []
        for word in ("one", "two", "one", "two"):
            prompt.set(word)
            await settled()
            assert answer.result == answer.partial == f"you said {word}"
            hashes.append(answer.request_hash)
        assert len(model.requests) == len(set(hashes)) == 2
        assert hashes[:2] == hashes[2:]
        answer.refresh()
        await settled()
    assert len(model.requests) == 3
    first = model.requests[0]
    assert [text_of(message) for message in first.messages] == ["Be brief.", "one"]
    assert (first.temperature, first.max_tokens, first.functions) == (0.5, 99, ())


async def test_partial_text_is_shown_only_for_its_own_prompt() -> None:
    prompt = cell("one")

    def slowly(request: ChatRequest) -> ScriptedAnswer:
        return ScriptedAnswer(chunks=["I ", 0.01, "hear ", 0.01, text_of(request.messages[-1])])

    seen: list[tuple[str, str, str | None]] = []
    async with scope(Resources(model=ScriptedModel(slowly))) as here:
        answer = generate_text(prompt)
        line = computed(lambda: (prompt(), answer.partial, answer.result))
        async for glimpse in line.follow():
            seen.append(glimpse.value)
            if glimpse.value[:2] == ("one", "I hear "):
                prompt.set("two")
                assert (answer.partial, answer.pending) == ("", True)
        await here.settled()
    assert ("one", "I hear ", None) in seen
    assert seen[-1] == ("two", "I hear two", "I hear two")
    assert not any(said == "two" and "one" in partial for said, partial, _ in seen)


async def test_a_changed_prompt_closes_the_running_stream() -> None:
    model = ScriptedModel(lambda _: ScriptedAnswer(chunks=["I ", 60.0, "never"]))
    prompt = cell("one")
    async with scope(Resources(model=model)):
        answer = generate_text(prompt)
        while answer.partial != "I ":
            await anyio.sleep(0)
        assert model.open_streams == 1
        prompt.set(None)
        await settled()
        assert (model.open_streams, answer.partial, answer.pending) == (0, "", False)


async def test_tools_are_called_one_after_another_until_a_reply_calls_none() -> None:
    bench = Bench()
    model = ScriptedModel(
        [
            calls(("look", {"what": "a"}), ("take", {"what": "b"}), words="Let me see."),
            calls(("look", {"what": "c"})),
            "All done.",
        ]
    )
    async with scope(Resources(model=model)):
        answer = generate_text("go", tools=bench.tools("look", take="taken"))
        assert (await answer.settled()).result == "All done."
    assert bench.asked == ["look a", "take b", "look c"]
    last = model.requests[-1].messages
    assert [(message.role, text_of(message), message.answers) for message in last] == [
        ("user", "go", ""),
        ("assistant", "Let me see.", ""),
        ("tool", "done", "c0"),
        ("tool", "taken", "c1"),
        ("assistant", "", ""),
        ("tool", "done", "c0"),
    ]
    assert [function.name for function in model.requests[0].functions] == ["look", "take"]


async def test_the_error_of_a_tool_is_the_result_that_the_model_reads() -> None:
    bench = Bench()
    tools = bench.tools(
        wrong=ToolFailure("no such city"), broken=KeyError("sk-1234"), long="x" * 200_000
    )
    unreadable = FunctionCall(call_id="c9", name="wrong", problem="no JSON: {")
    script = calls(("wrong", {}), ("broken", {}), ("long", {}), ("nobody", {}))
    script = ScriptedAnswer(calls=(*script.calls, unreadable))
    model = ScriptedModel([script, "I see."])
    async with scope(Resources(model=model)):
        assert (await generate_text("go", tools=tools).settled()).result == "I see."
    told = [text_of(message) for message in model.requests[-1].messages if message.answers]
    assert told[0] == "wrong failed with ToolFailure: no such city"
    assert told[1] == "broken failed with KeyError", (
        "the text of an unexpected error may contain data of the host"
    )
    assert len(told[2]) < 70_000
    assert "134464 characters left out" in told[2]
    assert told[3] == "there is no tool nobody; there is wrong, broken, long"
    assert told[4] == "wrong was not called: no JSON: {"
    assert bench.asked == ["wrong", "broken", "long"]


async def test_after_a_change_of_the_prompt_no_further_tool_is_called() -> None:
    bench, prompt = Bench(), cell("one")

    async def change(_: Mapping[str, Any]) -> str:
        prompt.set("two")
        return "changed, without ever pausing"

    tools = bench.tools("take")
    tools["change"] = ModelTool(name="change", description="", parameters={}, call=change)

    def script(request: ChatRequest) -> Any:
        if text_of(request.messages[0]) == "two":
            return "the second"
        return calls(("change", {}), ("take", {}), ("take", {}))

    async with scope(Resources(model=ScriptedModel(script))):
        answer = generate_text(prompt, tools=tools)
        assert (await answer.settled()).result == "the second"
    assert bench.asked == []


async def test_a_changed_description_of_the_tools_makes_a_new_request() -> None:
    bench, model = Bench(), ScriptedModel(echo)
    async with scope(Resources(model=model)):
        answer = generate_text("go", tools=bench.tools("look"))
        await settled()
        bench.place.set("another bench")
        assert (answer.pending, answer.result) == (True, None)
        await settled()
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (lambda _: calls(("look", {})), "in each of 3 replies"),
        (lambda _: ScriptedAnswer(chunks=["half of"], reason="length"), "cut at 4096 tokens"),
        (lambda _: QuotaExceeded("the account is empty"), "the account is empty"),
    ],
)
async def test_the_error_of_a_model_becomes_the_error_of_the_cell(script: Any, words: str) -> None:
    async with scope(Resources(model=ScriptedModel(script))):
        answer = generate_text("go", tools=Bench().tools("look"), steps=3)
        error = (await answer.settled()).error
        assert words in str(error)
        assert isinstance(error, LoopTooLong) == ("replies" in words)
        with batch():
            pass
        assert answer.partial == ("half of" if "cut" in words else "")


async def test_the_error_says_why_a_request_cannot_be_made() -> None:
    deaf = ScriptedModel(echo, profile=ModelProfile(name="small", functions=False))
    tools = Bench().tools("look")
    async with scope(Resources()):
        assert "no model" in str((await generate_text("go").settled()).error)
    async with scope(Resources(model=deaf)):
        error = (await generate_text("go", tools=tools).settled()).error
        assert "the model small calls no functions" in str(error)
        with pytest.raises(ReactiveError, match="'look' is offered as 'see'"):
            generate_text("go", tools={"see": tools["look"]})


async def test_a_growing_answer_of_a_model_is_shown() -> None:
    model = ScriptedModel([ScriptedAnswer(chunks=["a", 0.01, "b", 0.01, "c"])])
    async with scope(Resources(model=model)):
        seen = [glimpse.value async for glimpse in generate_text("go").follow()]
    assert seen[-1] == "abc"
    assert {"a", "ab"} <= set(seen)
