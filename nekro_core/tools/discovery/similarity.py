"""Measures how near a query is to each tool in meaning, for wordings that no list of words
covers."""

from array import array
from collections.abc import Sequence
from typing import Protocol

from loguru import logger

from nekro_core.system.workers.worker import WorkerLost, WorkerProcess

_TIMEOUT_S = 60.0
"""Time-out of a search. The first one also starts the process and encodes every tool: three seconds
of a core, or half a minute on a core that a dozen programs share. If the first
search were given up sooner, the next would have to start all of this again."""
_MAX_QUERY = 400
"""Most characters of a query; a model's query is a few words."""
_MOST_LOSSES = 3
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""The matrices are small: more threads only wait for each other."""


class TextSimilarity(Protocol):
    """Measures how near texts are in meaning."""

    async def of(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """For each text its nearness, from -1 to 1. No values at all if it cannot be measured."""


class SentenceVectors:
    """`TextSimilarity` by a sentence encoder, in a child process that ends when it is idle.

    If it fails, the search goes by words alone, and the log says what is missing.
    """

    def __init__(self, timeout_s: float = _TIMEOUT_S) -> None:
        self._worker = WorkerProcess(
            "nekro_core.tools.discovery.encoder_worker",
            timeout_s=timeout_s,
            environment=_ONE_THREAD,
        )
        self._losses = 0

    async def of(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """As `TextSimilarity.of`."""
        if self._losses >= _MOST_LOSSES or not texts:
            return ()
        try:
            answer, data = await self._worker.ask(
                {"query": query[:_MAX_QUERY], "texts": list(texts)}
            )
        except WorkerLost as lost:
            self._losses += 1
            logger.warning("tool_search goes by words alone: {}", lost)
            return ()
        if missing := answer.get("missing"):
            self._losses = _MOST_LOSSES
            logger.warning("tool_search goes by words alone from now on: {}", missing)
            return ()
        return array("f", data)

    async def aclose(self) -> None:
        """End the process."""
        await self._worker.aclose()
