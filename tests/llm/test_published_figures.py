"""The published price and context of a model are used if the operator sets no values."""

import subprocess
import sys

import pytest

from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.http_model import HttpChatModel
from nekro_core.llm.known_prices import effective_context, effective_price
from nekro_core.llm.model import Price, PriceSource, RequestUsage
from nekro_core.llm.named import NamedModels
from nekro_core.llm.settings import LLMSettings

OPENAI = {"base_url": "https://api.openai.com/v1", "model": "gpt-4o"}
PUBLISHED = Price(prompt=2.5, completion=10, cached=1.25, source=PriceSource.PUBLISHED)


@pytest.mark.parametrize(
    ("settings", "price", "context"),
    [
        ({}, PUBLISHED, 128_000),
        ({"context_tokens": 9_000}, PUBLISHED, 9_000),
        ({"context_tokens": 32_768}, PUBLISHED, 32_768),
        (
            {"prompt_price": 3, "completion_price": 4},
            Price(prompt=3, completion=4, source=PriceSource.OPERATOR),
            128_000,
        ),
        ({"prompt_price": 0}, Price(source=PriceSource.OPERATOR), 128_000),
        ({"published_figures": False}, Price(), 32_768),
        ({"model": "nobody-knows-it"}, Price(), 32_768),
        ({"base_url": "https://reseller.example/v1"}, Price(), 32_768),
        ({"base_url": "http://127.0.0.1:1/v1"}, Price(), 32_768),
        ({"base_url": "http://gpu.lan:8000/v1"}, Price(), 32_768),
    ],
    ids=lambda value: None if isinstance(value, Price | int) else str(value) or "none",
)
async def test_the_operators_figure_wins_over_the_published_one(
    settings: dict[str, object], price: Price, context: int
) -> None:
    known = LLMSettings(**{**OPENAI, **settings})  # type: ignore[arg-type]
    model = HttpChatModel(known)
    await model.connect()
    await model.aclose()
    assert (model.profile.price, model.profile.context_tokens) == (price, context)
    told = await effective_price(known)
    assert told.source == price.source
    assert (told.day is not None) == (price.source == "published")
    assert (await effective_context(known))[0] == context


async def test_the_models_of_groups_have_published_figures_too() -> None:
    models = NamedModels({"big": ModelGroupSettings(**OPENAI)})  # type: ignore[arg-type]
    model = models.get("big")
    assert model is not None
    await model.prepare()
    assert model.profile.price == PUBLISHED
    usage = RequestUsage(prompt_tokens=1_000_000, completion_tokens=100_000, cached_tokens=500_000)
    assert model.profile.price.of(usage) == 1.25 + 0.625 + 1.0
    await models.aclose()


def test_the_list_of_prices_is_not_loaded_for_an_endpoint_on_this_machine() -> None:
    code = """
import sys, anyio
from nekro_core.llm.http_model import HttpChatModel
from nekro_core.llm.settings import LLMSettings
model = HttpChatModel(LLMSettings(base_url="http://127.0.0.1:1/v1", model="gpt-4o"))
anyio.run(model.connect)
assert not [name for name in sys.modules if name.startswith("genai_prices")]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
