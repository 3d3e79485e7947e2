"""Asks a model. A cell holds the answer, and the model is asked again when an input of the cell
changes."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from reaktiv import Signal

from nekro_core.llm.model import ChatModel, ChatRequest, PromptMessage
from nekro_core.reactive.cells import AsyncCell, after_input
from nekro_core.reactive.errors import ReactiveError
from nekro_core.reactive.follow import Glimpse
from nekro_core.reactive.inputs import InputSnapshot
from nekro_core.reactive.model_tools import ModelTool, run_tool_loop
from nekro_core.reactive.scope import current_scope
from nekro_core.reactive.values import Reactive

STEPS: Final = 24
"""Maximum number of replies of a model in one conversation with tools."""
REMEMBERED: Final = 16
"""Maximum number of answers that a cell stores. A request whose answer is stored is not sent
again."""


class TextCell(AsyncCell[str]):
    """The cell that `generate_text` returns. Its text can be read while the reply arrives
    (`partial`). It stores the last 16 answers (`REMEMBERED`), each under its request.

    Args:
        answer: A function that asks the model. It gets the inputs and a second function. Each time
            that the text grows, it calls the second function with the whole text so far. It returns
            the complete text.
        inputs: The same as for `AsyncCell`; ``prompt`` must be among them.
        present: The same as for `AsyncCell`.
    """

    def __init__(
        self,
        answer: Callable[[InputSnapshot, Callable[[str], None]], Any],
        inputs: Mapping[str, Any],
        *,
        present: tuple[str, ...] = (),
    ) -> None:
        self._arriving = Signal(("", ""))

        async def load(given: InputSnapshot) -> str:
            def on_text(words: str) -> None:
                self._arriving.set((given.key, words))

            text: str = await answer(given, on_text)
            return text

        super().__init__(
            load,
            inputs,
            name="generate_text",
            needed=("prompt",),
            present=present,
            remember=REMEMBERED,
        )

    @property
    def partial(self) -> str:
        """The part of the reply to the present request that has arrived."""
        state = self.state
        if state.result is not None:
            return state.result
        key, words = self._arriving.get()
        return words if key and key == self.key else ""

    @property
    def request_hash(self) -> str:
        """A hash of the present request; empty while there is no request."""
        return self.key

    def _glimpse(self) -> Glimpse:
        glimpse = super()._glimpse()
        return (
            glimpse
            if glimpse.value is not None
            else Glimpse(self.partial or None, glimpse.error, glimpse.final)
        )


def generate_text(
    prompt: Reactive[str | None],
    *,
    system: Reactive[str | None] = None,
    tools: Mapping[str, ModelTool] | None = None,
    temperature: Reactive[float | None] = None,
    max_tokens: int = 4096,
    steps: int = STEPS,
    after: Any = None,
) -> TextCell:
    """Ask the bot's model. The cell is idle while the prompt is None or empty.

    If tools are given, the model may call them. It is asked again with their results until a reply
    calls no tool. The cell stores the last 16 answers (`REMEMBERED`): a request whose answer is
    stored does not ask the model again. The cell fails with `ReactiveError` if the scope has no
    model, if there are tools and the model cannot call functions, or if a reply was cut at
    ``max_tokens``. It fails with `LoopTooLong` after ``steps`` replies, and with `ModelError` if a
    request to the model fails.

    Args:
        prompt: What to ask.
        system: The system message; None sends none.
        tools: `SandboxHandle.tools` or your own tools. The key of each tool is its name.
        temperature: Sent to the provider unchanged; None leaves the choice to the provider.
        max_tokens: The largest number of tokens of each reply.
        steps: The largest number of replies of the model in one conversation with its tools; 24
            unless given.
        after: A cell that must have a result first, or another reactive value that must not be
            None. The model is asked again when the cell has a new result or the value changes.

    Returns:
        A cell with the text of the last reply.

    Raises:
        ReactiveError: The key of a tool is not its name.
    """
    model = current_scope().resources.model
    offered = dict(tools or {})
    for name, tool in offered.items():
        if name != tool.name:
            raise ReactiveError(f"tools: {tool.name!r} is offered as {name!r}: expected its name")
    inputs: dict[str, Any] = {
        "prompt": prompt,
        "system": system,
        "temperature": temperature,
        "tools": [[tool.name, tool.description, tool.parameters] for tool in offered.values()],
        "about": [tool.about for tool in offered.values()],
    }
    present: tuple[str, ...] = ()
    if after is not None:
        inputs["after"] = after_input(after)
        present = ("after",)

    async def answer(given: InputSnapshot, on_text: Callable[[str], None]) -> str:
        usable = _checked_model(model, offered)
        values = given.values
        system_message = values.get("system")
        messages = [PromptMessage.of("system", system_message)] if system_message else []
        request = ChatRequest(
            messages=(*messages, PromptMessage.of("user", values["prompt"])),
            max_tokens=max_tokens,
            temperature=values.get("temperature"),
            functions=tuple(tool.function for tool in offered.values()),
        )
        return await run_tool_loop(usable, request, offered, steps=steps, on_text=on_text)

    return TextCell(answer, inputs, present=present)


def _checked_model(model: ChatModel | None, tools: Mapping[str, ModelTool]) -> ChatModel:
    if model is None:
        raise ReactiveError("this scope has no model: give scope() a context or a model")
    if tools and not model.profile.functions:
        raise ReactiveError(
            f"the model {model.profile.name} calls no functions: leave out the tools"
        )
    return model
