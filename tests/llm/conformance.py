"""Tests that every `ChatModel` must pass. The tests of an implementation subclass
`ChatModelConformance` and define the fixture ``model``: a model that answers any question with a
few words or more, in several deltas.

The tests of a model that can call functions also subclass `FunctionCallConformance`, with a fixture
``calling_model``: a model that answers any question with the words "Rolling." and two calls of
``roll_dice``, with 6 and with 20 sides."""

import anyio

from nekro_core.llm.model import (
    AudioPart,
    ChatModel,
    ChatRequest,
    Delta,
    Function,
    FunctionCall,
    ImagePart,
    PromptMessage,
    ReplyFinished,
    RequestUsage,
    TextDelta,
    TextPart,
)


def ask(*texts: str, **options) -> ChatRequest:
    """Make a request with these texts as user messages."""
    return ChatRequest(messages=tuple(PromptMessage.of("user", text) for text in texts), **options)


async def listen(model: ChatModel, request: ChatRequest) -> list[Delta]:
    """Read all deltas of a reply."""
    async with model.stream(request) as deltas:
        return [delta async for delta in deltas]


def words_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


class ChatModelConformance:
    async def test_a_reply_has_its_words_then_the_usage_then_the_end(
        self, model: ChatModel
    ) -> None:
        deltas = await listen(model, ask("Count from one to five.", max_tokens=64))
        *words, usage, end = deltas
        assert words
        assert all(isinstance(delta, TextDelta) and delta.text for delta in words)
        assert isinstance(usage, RequestUsage)
        assert usage.prompt_tokens > 0
        assert usage.completion_tokens > 0
        assert 0 <= usage.cached_tokens <= usage.prompt_tokens
        assert isinstance(end, ReplyFinished)

    async def test_a_reader_that_leaves_early_does_not_block_the_next_request(
        self, model: ChatModel
    ) -> None:
        for _ in range(3):
            async with model.stream(ask("Count from one to fifty.", max_tokens=256)) as deltas:
                assert isinstance(await anext(deltas), TextDelta)
        with anyio.fail_after(60):
            assert words_of(await listen(model, ask("Say yes.", max_tokens=16)))

    async def test_a_stream_may_be_closed_unread(self, model: ChatModel) -> None:
        async with model.stream(ask("Hello.", max_tokens=16)):
            pass
        assert words_of(await listen(model, ask("Say yes.", max_tokens=16)))

    async def test_a_cancelled_reader_does_not_block_the_next_request(
        self, model: ChatModel
    ) -> None:
        async with anyio.create_task_group() as tasks:

            async def listen_until_cancelled() -> None:
                async with model.stream(ask("Count to fifty.", max_tokens=256)) as deltas:
                    async for _ in deltas:
                        tasks.cancel_scope.cancel()

            tasks.start_soon(listen_until_cancelled)
        with anyio.fail_after(60):
            assert words_of(await listen(model, ask("Say yes.", max_tokens=16)))

    async def test_many_requests_run_at_once(self, model: ChatModel) -> None:
        replies: list[list[Delta]] = []

        async def one(number: int) -> None:
            replies.append(await listen(model, ask(f"Say {number}.", max_tokens=16)))

        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(one, number)
        assert len(replies) == 4
        assert all(isinstance(reply[-1], ReplyFinished) for reply in replies)

    async def test_unusual_characters_in_a_request_cause_no_error(self, model: ChatModel) -> None:
        for text in ("", "\ud83d lone", "\x00\x07", "\u202eright to left", "你好，世界", "🀄" * 50):
            assert isinstance((await listen(model, ask(text, max_tokens=8)))[-1], ReplyFinished)

    async def test_a_request_with_pictures_and_sound_gets_a_reply(self, model: ChatModel) -> None:
        message = PromptMessage(
            "user", (TextPart("What is this?"), ImagePart(b"\x89PNG", "image/png"), AudioPart(b"R"))
        )
        if model.profile.vision or model.profile.audio:
            message = PromptMessage("user", message.parts[:1])
        reply = await listen(model, ChatRequest(messages=(message,), max_tokens=8))
        assert isinstance(reply[-1], ReplyFinished)


DICE = Function(
    name="roll_dice",
    description="Roll a die.",
    parameters={
        "type": "object",
        "properties": {"sides": {"type": "integer"}},
        "required": ["sides"],
        "additionalProperties": False,
    },
)


def calls_of(deltas: list[Delta]) -> list[FunctionCall]:
    return [delta for delta in deltas if isinstance(delta, FunctionCall)]


class FunctionCallConformance:
    async def test_whole_calls_come_after_the_text_and_before_the_usage(
        self, calling_model: ChatModel
    ) -> None:
        assert calling_model.profile.functions
        deltas = await listen(calling_model, ask("Roll two dice.", functions=(DICE,)))
        *words, first, second, usage, end = deltas
        assert words_of(words) == "Rolling."
        for call, sides in ((first, 6), (second, 20)):
            assert isinstance(call, FunctionCall)
            assert (call.name, call.arguments, call.problem) == ("roll_dice", {"sides": sides}, "")
        assert first.call_id != second.call_id
        assert isinstance(usage, RequestUsage)
        assert end == ReplyFinished("stop")

    async def test_the_results_of_calls_can_be_sent_to_the_model(
        self, calling_model: ChatModel
    ) -> None:
        request = ask("Roll two dice.", functions=(DICE,))
        calls = calls_of(await listen(calling_model, request))
        said = PromptMessage("assistant", (TextPart("Rolling."),), calls=tuple(calls))
        answers = [
            PromptMessage("tool", (TextPart(str(number)),), answers=call.call_id)
            for number, call in enumerate(calls)
        ]
        again = ChatRequest(
            messages=(*request.messages, said, *answers), functions=(DICE,), max_tokens=64
        )
        assert isinstance((await listen(calling_model, again))[-1], ReplyFinished)
