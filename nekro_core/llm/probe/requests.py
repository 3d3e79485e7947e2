"""The small requests of a probe: a text for the speed, a picture, and a function."""

import io
import re
from dataclasses import dataclass

import anyio

from nekro_core.llm.model import (
    ChatModel,
    ChatRequest,
    Function,
    FunctionCall,
    ImagePart,
    PromptMessage,
    RequestUsage,
    TextDelta,
    TextPart,
)
from nekro_core.llm.tokens import estimate_tokens

_MAX_TOKENS = 1024
"""Maximum number of tokens of one reply. The answers need at most 150 tokens; the rest is for the
thoughts of a model that thinks before it answers."""
_COUNT_TO = 40
_WIDTH, _HEIGHT, _SIZE = 320, 128, 96
_FUNCTION = "report_number"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReply:
    """A reply, with the seconds until its first token and until its end."""

    text: str
    calls: tuple[FunctionCall, ...]
    usage: RequestUsage | None
    first_s: float
    seconds: float

    @property
    def tokens_per_s(self) -> float | None:
        """Return the number of tokens per second after the first token; None if the reply arrived
        all at once or is too short to measure. If the model thought before it answered, the time
        and the tokens of its thoughts are included."""
        visible = estimate_tokens(self.text)
        counted = visible
        if self.usage is not None and not self.usage.estimated:
            counted = self.usage.completion_tokens
        thought = counted > 2 * visible
        took = self.seconds if thought else self.seconds - self.first_s
        return counted / took if counted >= 8 and took > 0.001 else None


def speed_request() -> ChatRequest:
    """Ask for a text of about 100 tokens."""
    words = f"Write the numbers from 1 to {_COUNT_TO} in digits, separated by spaces, and no more."
    return ChatRequest(messages=(PromptMessage.of("user", words),), max_tokens=_MAX_TOKENS)


def picture_request(number: int) -> ChatRequest:
    """Show a picture of a number and ask which one it is."""
    words = "Which number is in the picture? Answer with its digits alone."
    parts = (TextPart(words), ImagePart(_picture(number), "image/png"))
    return ChatRequest(messages=(PromptMessage("user", parts),), max_tokens=_MAX_TOKENS)


def function_request(number: int) -> ChatRequest:
    """Ask for a call of a function with a number."""
    words = f"Call the function {_FUNCTION} with the number {number}."
    function = Function(
        name=_FUNCTION,
        description="Report a number.",
        parameters={
            "type": "object",
            "properties": {"number": {"type": "integer", "description": "The number."}},
            "required": ["number"],
        },
    )
    return ChatRequest(
        messages=(PromptMessage.of("user", words),), max_tokens=_MAX_TOKENS, functions=(function,)
    )


def names_number(reply: ProbeReply, number: int) -> bool:
    """Return True if the text of a reply contains the number, with or without separators between
    its digits."""
    return str(number) in re.sub(r"[\s,.'_*`-]", "", reply.text)


def reports_number(reply: ProbeReply, number: int) -> bool:
    """Return True if a reply calls the function with the number."""
    return any(
        call.name == _FUNCTION and not call.problem and call.arguments.get("number") == number
        for call in reply.calls
    )


async def ask(model: ChatModel, request: ChatRequest) -> ProbeReply:
    """Send a request and read the whole reply. Raises `ModelError`."""
    began = anyio.current_time()
    first_s: float | None = None
    words: list[str] = []
    calls: list[FunctionCall] = []
    usage: RequestUsage | None = None
    async with model.stream(request) as deltas:
        async for delta in deltas:
            if first_s is None:
                first_s = anyio.current_time() - began
            match delta:
                case TextDelta(text):
                    words.append(text)
                case FunctionCall():
                    calls.append(delta)
                case RequestUsage():
                    usage = delta
    seconds = anyio.current_time() - began
    return ProbeReply(
        text="".join(words),
        calls=tuple(calls),
        usage=usage,
        first_s=seconds if first_s is None else first_s,
        seconds=seconds,
    )


def _picture(number: int) -> bytes:
    """Draw the digits in black on white."""
    from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415 - 15 ms, seldom needed

    picture = Image.new("RGB", (_WIDTH, _HEIGHT), "white")
    font = ImageFont.load_default(size=_SIZE)
    ImageDraw.Draw(picture).text(
        (_WIDTH / 2, _HEIGHT / 2), str(number), fill="black", font=font, anchor="mm"
    )
    encoded = io.BytesIO()
    picture.save(encoded, "PNG")
    return encoded.getvalue()
