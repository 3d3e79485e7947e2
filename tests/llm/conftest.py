"""Fixtures that make models for scripted endpoints."""

import pytest

from nekro_core.llm.http_model import HttpChatModel
from nekro_core.llm.settings import LLMSettings
from tests.peers.scripted_model import ScriptedModelServer

KEY = "sk-test-0123456789abcdef"


class Sleeps(list[float]):
    """A fake sleep that stores the requested seconds and returns at once."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
async def model_at():
    """A function that makes models for a server. The models are closed after the test."""
    made: list[HttpChatModel] = []

    def make(server: ScriptedModelServer, **changes) -> HttpChatModel:
        sleep = changes.pop("sleep", Sleeps())
        fields = {"base_url": server.base_url, "model": "scripted", "api_key": KEY, **changes}
        made.append(HttpChatModel(LLMSettings(**fields), sleep=sleep, jitter=lambda: 0.5))
        return made[-1]

    yield make
    for model in made:
        await model.aclose()
