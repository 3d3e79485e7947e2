"""Defines tools that a model calls natively, and the loop that runs the model's calls."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import anyio.lowlevel
from loguru import logger

from nekro_core.llm.model import (
    ChatModel,
    ChatRequest,
    Function,
    FunctionCall,
    PromptMessage,
    ReplyFinished,
    TextDelta,
    TextPart,
)
from nekro_core.reactive.errors import LoopTooLong, ReactiveError
from nekro_core.sandbox.box import BoxFileError, ImageUnavailable
from nekro_core.sandbox.named import ImageMismatch
from nekro_core.tools.outcome import public_error_text

MAX_RESULT: Final = 64 * 1024
"""Maximum number of characters of a tool's result that the model gets."""
_PUBLIC_ERRORS = (BoxFileError, ImageUnavailable, ImageMismatch)
"""Errors of boxes whose texts the model may read: they name only paths in the box."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTool:
    """A function that a model may call.

    Attributes:
        name: The name that the model uses. The tool must be offered under the same key.
        description: The text about the tool that the model reads.
        parameters: The JSON schema of its arguments, an object.
        call: The function. It gets the arguments as the model wrote them, unchecked, and returns a
            text. If the text has more than 64 Ki characters (`MAX_RESULT`), the model gets its
            beginning and its end. If the function raises, the model reads the error as the result.
        about: Plain data or a reactive value on which the tool's results depend, besides its
            arguments. It is an input of every cell that offers the tool.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    call: Callable[[Mapping[str, Any]], Awaitable[str]] = field(repr=False)
    about: Any = None

    @property
    def function(self) -> Function:
        """The tool in the form that a request to the model has."""
        return Function(name=self.name, description=self.description, parameters=self.parameters)


async def run_tool_loop(
    model: ChatModel,
    request: ChatRequest,
    tools: Mapping[str, ModelTool],
    *,
    steps: int,
    on_text: Callable[[str], None],
) -> str:
    """Ask the model until a reply calls no tool, and return the text of that reply.

    The calls of a reply run one after another. The model reads a tool's error as its result.
    ``on_text`` is called with the text of the present reply each time that the text grows. Raises
    `LoopTooLong` after ``steps`` replies, `ReactiveError` for a reply that was cut at the token
    limit, and `ModelError`.
    """
    for _ in range(steps):
        words, calls = await _reply(model, request, on_text)
        if not calls:
            return words
        assistant = PromptMessage("assistant", (TextPart(words),) if words else (), calls=calls)
        answers = [await _answer(call, tools) for call in calls]
        request = replace(request, messages=(*request.messages, assistant, *answers))
    raise LoopTooLong(f"the model called tools in each of {steps} replies and did not finish")


async def _reply(
    model: ChatModel, request: ChatRequest, on_text: Callable[[str], None]
) -> tuple[str, tuple[FunctionCall, ...]]:
    words: list[str] = []
    calls: list[FunctionCall] = []
    on_text("")
    async with model.stream(request) as deltas:
        async for delta in deltas:
            match delta:
                case TextDelta(text):
                    words.append(text)
                    on_text("".join(words))
                case FunctionCall():
                    calls.append(delta)
                case ReplyFinished("length") if not calls:
                    raise ReactiveError(
                        f"the reply was cut at {request.max_tokens} tokens: allow more (max_tokens)"
                    )
                case _:
                    pass
    return "".join(words), tuple(calls)


async def _answer(call: FunctionCall, tools: Mapping[str, ModelTool]) -> PromptMessage:
    # A cancelled conversation must not start another tool. The previous tool may have run without
    # an await, so the cancellation is checked here.
    await anyio.lowlevel.checkpoint_if_cancelled()
    text = await _call_tool(call, tools)
    if len(text) > MAX_RESULT:
        left_out = len(text) - MAX_RESULT
        half = MAX_RESULT // 2
        text = f"{text[:half]}\n... {left_out} characters left out ...\n{text[-half:]}"
    return PromptMessage("tool", (TextPart(text),), answers=call.call_id)


async def _call_tool(call: FunctionCall, tools: Mapping[str, ModelTool]) -> str:
    tool = tools.get(call.name)
    if tool is None:
        return f"there is no tool {call.name}; there is {', '.join(tools) or 'none'}"
    if call.problem:
        return f"{call.name} was not called: {call.problem}"
    try:
        return await tool.call(call.arguments)
    except Exception as error:  # noqa: BLE001 - a tool may raise anything; the model reads it
        detail = str(error) if isinstance(error, _PUBLIC_ERRORS) else public_error_text(error)
        # If the model gets no text of the error, only the log has it. So the log line is a warning.
        level = "DEBUG" if detail else "WARNING"
        logger.opt(exception=error).log(level, "{} failed for a model", call.name)
        return f"{call.name} failed with {type(error).__name__}{detail and f': {detail}'}"
