"""Measures how long the answer takes when the first model of a chain fails.

The baseline is the same request to the second model alone, over the same kind of connection.
"""

import time

from loguru import logger

from bench.figure import Figure
from nekro_core.llm.chain import ModelChain
from nekro_core.llm.chains import ModelChains
from nekro_core.llm.http_model import HttpChatModel
from nekro_core.llm.model import ChatModel, ChatRequest, PromptMessage, TextDelta
from nekro_core.llm.role_settings import RoleSettings
from nekro_core.llm.settings import LLMSettings
from tests.peers.faulty_model import closed_port
from tests.peers.scripted_model import Answer, ScriptedModelServer

_ROUNDS = 60
_TARGET_MS = 1000.0
"""The answer must come from the next model within a second of the failure."""
_REQUEST = ChatRequest(messages=(PromptMessage.of("user", "hello"),))


async def figures() -> list[Figure]:
    """Return the milliseconds from the request to the first word, if the first model refuses the
    connection, answers 503, or breaks off before its first word."""
    logger.disable("nekro_core.llm.chain")  # the chain logs a warning about each failure
    async with (
        closed_port() as closed,
        ScriptedModelServer(lambda _: Answer(status=503)) as busy,
        ScriptedModelServer(lambda _: Answer(then="break")) as breaking,
        ScriptedModelServer(lambda _: "good morning") as good,
    ):
        second = _model(good.base_url)
        floor = [await _first_word_ms(second) for _ in range(_ROUNDS)]
        found = []
        for what, address in (
            ("closed port", closed),
            ("status 503", busy.base_url),
            ("broken stream", breaking.base_url),
        ):
            first = _model(address)
            samples = [await _first_word_ms(_chain(first, second)) for _ in range(_ROUNDS)]
            found.append(
                Figure.of(
                    f"failover: first word after {what}",
                    "ms",
                    samples,
                    sorted(floor)[len(floor) // 2],
                    "the second model alone",
                    _TARGET_MS,
                )
            )
            await first.aclose()
        await second.aclose()
        return found


def _model(address: str) -> HttpChatModel:
    return HttpChatModel(LLMSettings(base_url=address, model="bench"))


def _chain(first: ChatModel, second: ChatModel) -> ModelChain:
    """Make a new chain. In a new chain no model is paused after a failure."""
    chain = ModelChains(RoleSettings(), {"first": first, "second": second}.get).chain(
        ("first", "second")
    )
    assert chain is not None
    return chain


async def _first_word_ms(model: ChatModel) -> float:
    began = time.perf_counter()
    async with model.stream(_REQUEST) as deltas:
        async for delta in deltas:
            if isinstance(delta, TextDelta):
                return (time.perf_counter() - began) * 1000
    raise AssertionError("no model answered")
