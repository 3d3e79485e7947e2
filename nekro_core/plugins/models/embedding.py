"""Makes embedding vectors of texts: by an HTTP endpoint, or locally without a model."""

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from typing import Any

import httpx

from nekro_core.llm.failures import Redactor, model_error, parse_retry_after
from nekro_core.llm.model import ModelError, ModelUnreachable, RequestRejected
from nekro_core.tools.outcome import InvalidValue

DIMENSIONS = 1024
"""Dimensions of a vector that is made locally, unless the caller passes another number."""
_MOST_DIMENSIONS = 8192
_MOST_BODY = 64 * 1024 * 1024
_CHARACTERS = 20_000
_WORD = re.compile(r"[^\W_]+")


def embed_locally(text: str, dimensions: int | None = None) -> list[float]:
    """Make a vector of length 1 from a text's words and character n-grams. Texts with common words
    or n-grams are near each other.

    Each n-gram is hashed to a position in the vector and a sign (feature hashing, Weinberger et al.
    2009). The n-grams of ASCII words have three characters, and the n-grams of other words have one
    or two. Meaning does not count: "cat" and "feline" are not near. Only the first 20,000
    characters of the text count. The result is the same on every machine. Raises `ValueError`
    unless ``dimensions`` is 8 to 8192.
    """
    size = dimensions or DIMENSIONS
    if not 8 <= size <= _MOST_DIMENSIONS:
        raise InvalidValue(f"{size} dimensions: expected 8 to {_MOST_DIMENSIONS}")
    vector = [0.0] * size
    for piece, count in _pieces(text[:_CHARACTERS]).items():
        digest = int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=8).digest(), "big")
        vector[(digest >> 1) % size] += (1.0 if digest & 1 else -1.0) * (1.0 + math.log(count))
    length = math.sqrt(math.fsum(value * value for value in vector))
    if not length:
        vector[0], length = 1.0, 1.0  # texts without words get a fixed direction
    return [value / length for value in vector]


def _pieces(text: str) -> Counter[str]:
    found: Counter[str] = Counter()
    folded = unicodedata.normalize("NFKC", text).casefold()
    for word in _WORD.findall(folded.encode("utf-8", "replace").decode()):
        if word.isascii():
            found[word] += 2
            marked = f"^{word}$"
            found.update(marked[at : at + 3] for at in range(len(marked) - 2))
        else:
            found.update(word)
            found.update(word[at : at + 2] for at in range(len(word) - 1))
    return found


class EmbeddingEndpoint:
    """A client of ``/embeddings`` of an OpenAI-compatible API. Make a new one for each request."""

    def __init__(self, base_url: str, api_key: str, *, proxy: str = "", timeout_s: float) -> None:
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._key = api_key
        self._proxy = proxy or None
        self._timeout_s = timeout_s
        self._redact = Redactor(api_key)

    async def embed(
        self, model: str, texts: list[Any], dimensions: int | None
    ) -> tuple[list[list[float]], int]:
        """Get a vector for each text, and the number of tokens that the provider counted (0 if it
        returned none). Raises `ModelError`."""
        body: dict[str, Any] = {"model": model, "input": texts, "encoding_format": "float"}
        if dimensions:
            body["dimensions"] = dimensions
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            async with (
                httpx.AsyncClient(proxy=self._proxy, timeout=self._timeout_s) as client,
                client.stream("POST", self._url, json=body, headers=headers) as response,
            ):
                data = bytearray()
                async for chunk in response.aiter_bytes():
                    data += chunk
                    if len(data) > _MOST_BODY:
                        raise RequestRejected(f"an answer of more than {_MOST_BODY} bytes")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            what = self._redact(str(error) or repr(error))
            raise ModelUnreachable(f"the endpoint for embeddings does not answer: {what}") from None
        if response.status_code >= 400:
            raise self._refused(response, bytes(data))
        return _read(response, bytes(data), len(texts))

    def _refused(self, response: httpx.Response, data: bytes) -> ModelError:
        error, _ = model_error(
            response.status_code,
            _json(response, data),
            data[:500].decode("utf-8", "replace"),
            self._redact,
            retry_after_s=parse_retry_after(response.headers.get("retry-after")),
        )
        return error


def _json(response: httpx.Response, data: bytes) -> Any:
    try:
        return httpx.Response(response.status_code, content=data).json()
    except ValueError:
        return None


def _read(response: httpx.Response, data: bytes, wanted: int) -> tuple[list[list[float]], int]:
    body = _json(response, data)
    rows = body.get("data") if isinstance(body, Mapping) else None
    try:
        assert isinstance(rows, list)
        ordered = sorted(rows, key=lambda row: int(row.get("index", 0)))
        vectors = [[float(value) for value in row["embedding"]] for row in ordered]
        assert len(vectors) == wanted
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError):
        raise RequestRejected(
            "the address answers with no embeddings: check that base_url is the API's address, "
            "most often ending in /v1, and that the model is one for embeddings"
        ) from None
    usage = body.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, Mapping) else 0
    return vectors, tokens if isinstance(tokens, int) and tokens > 0 else 0
