"""Estimates numbers of tokens that the provider does not send."""

import json
import math
import re

from nekro_core.llm.model import AudioPart, ChatRequest, Function, ImagePart, RequestUsage, TextPart

_WIDE = re.compile(r"[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
                   r"\U00020000-\U0003ffff]")  # fmt: skip

_PER_MESSAGE = 4
"""Tokens that chat templates add to each message."""
IMAGE_TOKENS = 800
"""Tokens of a picture. Large providers count about this number for 1024 x 1024 pixels."""
_AUDIO_BYTES_PER_TOKEN = 3_200
"""Number of bytes of sound that count as one token. Providers count about ten tokens a second, and
a tenth of a second of 16 kHz PCM has this many bytes."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of ``text``. The estimate is rather too high than too low.

    In common vocabularies, a token has 3 to 4 characters of English or code, 1 to 1.6 of Chinese,
    Japanese or Korean, and about 2 of Cyrillic, Arabic and other scripts.
    """
    if text.isascii():
        return math.ceil(len(text) / 3.5)
    wide = len(_WIDE.findall(text))
    other = len(text) - len(text.encode("ascii", "ignore")) - wide
    return math.ceil((len(text) - wide - other) / 3.5 + wide + other / 2)


def function_text(function: Function) -> str:
    """Return a text that is about as long as the description of a function that the model gets."""
    return f"{function.name} {function.description} {json.dumps(dict(function.parameters))}"


def estimate_prompt(request: ChatRequest) -> int:
    """Estimate the tokens of a request's prompt."""
    total = sum(estimate_tokens(function_text(each)) for each in request.functions)
    for message in request.messages:
        total += _PER_MESSAGE
        total += sum(estimate_tokens(f"{call.name}{call.written}") for call in message.calls)
        for part in message.parts:
            match part:
                case TextPart(text):
                    total += estimate_tokens(text)
                case ImagePart():
                    total += IMAGE_TOKENS
                case AudioPart(data):
                    total += len(data) // _AUDIO_BYTES_PER_TOKEN + 1
    return total


def estimate_usage(request: ChatRequest, reply: str) -> RequestUsage:
    """Estimate the tokens of a request and its reply so far."""
    return RequestUsage(
        prompt_tokens=estimate_prompt(request),
        completion_tokens=estimate_tokens(reply),
        estimated=True,
    )
