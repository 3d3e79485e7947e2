"""How much of a prompt a text takes."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from nekro_core.llm.tokens import estimate_tokens


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """``name`` says by which vocabulary is counted, or that it is estimated."""

    name: str
    count: Callable[[str], int]


def token_counter() -> TokenCounter:
    """The vocabulary of today's large models where `bpe-openai` is installed, else an estimate."""
    if find_spec("bpe_openai") is None:
        return TokenCounter("estimated", estimate_tokens)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # how it opens its own files
        import bpe_openai  # noqa: PLC0415 - 40 MB, which only some installations have

        encoding = bpe_openai.get_encoding("o200k_base")
    return TokenCounter("o200k_base", lambda text: len(encoding.encode(text)))
