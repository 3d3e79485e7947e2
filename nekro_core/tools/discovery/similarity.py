"""Measures how similar a query and each tool are in meaning. So a search also finds tools for words
that the search by words does not connect with the tool."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from loguru import logger

from nekro_core.system.workers.worker import WorkerLost, WorkerProcess

_TIMEOUT_S = 60.0
"""Time-out of a search. The first search also starts the process and encodes every tool. This takes
three seconds of one core, or half a minute if a dozen programs share the core. After a time-out,
the next search would have to start all of this again."""
_MAX_QUERY = 400
"""How many characters of a query are read. A model's query has a few words."""
_MOST_LOSSES = 3
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""The encoder's matrices are small, so more threads would only wait for each other."""


class TextSimilarity(Protocol):
    """Measures how similar texts are in meaning."""

    async def of(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Get the similarity between the query and each text, from -1 to 1. The result is empty if
        it cannot be measured."""


VECTOR_NUMBERS = 512
"""How many numbers the encoder's vector of a text has."""


@dataclass(frozen=True, slots=True)
class EncodedTexts:
    """The vectors of a query and of texts.

    Attributes:
        query: The vector of the query.
        signs: For each text, which numbers of its vector are positive: one bit for each number.
    """

    query: "array[float]"
    signs: tuple[bytes, ...]


class SentenceVectors:
    """A `TextSimilarity` with a sentence encoder in a child process, which ends when it is idle.

    If the encoder fails, the search uses words only, and the log says why. After three failures, or
    if a package is missing, the encoder is not tried again.
    """

    def __init__(self, timeout_s: float = _TIMEOUT_S) -> None:
        self._worker = WorkerProcess(
            "nekro_core.tools.discovery.encoder_worker",
            timeout_s=timeout_s,
            environment=_ONE_THREAD,
        )
        self._losses = 0

    async def of(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """See `TextSimilarity.of`."""
        if not texts:
            return ()
        data = await self._ask({"query": query[:_MAX_QUERY], "texts": list(texts)})
        return array("f", data) if data is not None else ()

    async def encode(self, query: str, texts: Sequence[str]) -> EncodedTexts | None:
        """Compute the vectors of a query and of texts. A text takes 2 ms of one core.

        Returns:
            The vectors; None if the encoder cannot be used.
        """
        request = {"query": query[:_MAX_QUERY], "texts": [each[:_MAX_QUERY] for each in texts]}
        data = await self._ask(request | {"signs": True})
        if data is None:
            return None
        begin, size = VECTOR_NUMBERS * 4, VECTOR_NUMBERS // 8
        return EncodedTexts(
            array("f", data[:begin]),
            tuple(data[at : at + size] for at in range(begin, len(data), size)),
        )

    async def _ask(self, request: Mapping[str, Any]) -> bytes | None:
        if self._losses >= _MOST_LOSSES:
            return None
        try:
            answer, data = await self._worker.ask(request)
        except WorkerLost as lost:
            self._losses += 1
            logger.warning("a search uses words only: {}", lost)
            return None
        if missing := answer.get("missing"):
            self._losses = _MOST_LOSSES
            logger.warning("searches use words only from now on: {}", missing)
            return None
        return data

    async def aclose(self) -> None:
        """End the process."""
        await self._worker.aclose()
