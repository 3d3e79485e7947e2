"""How near a wish is to each tool in meaning, which no list of words can say of every wording."""

from array import array
from collections.abc import Sequence
from typing import Protocol

from loguru import logger

from nekro_core.system.workers.worker import WorkerLost, WorkerProcess

_TIMEOUT_S = 60.0
"""Of a search, the first of which also starts the process and reads every tool: three seconds of a
core, and half a minute on one that a dozen programs want. Given up sooner, the next begins anew."""
_MAX_QUERY = 400
"""Characters; a query of a model's is a few words."""
_MOST_LOSSES = 3
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""The matrices are small: more threads only wait for each other."""


class TextSimilarity(Protocol):
    """Who can tell."""

    async def of(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """For each text how near it is, from -1 to 1; nothing where that cannot be told."""


class SentenceVectors:
    """`TextSimilarity` by a sentence encoder, in a process that lives while people search.

    A search never fails for its sake: what is missing is logged, and words alone decide.
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
