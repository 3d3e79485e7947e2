"""The presets of providers are complete, and their prices come from published lists."""

from urllib.parse import urlsplit

import pytest

from nekro_core.llm.known_prices import effective_price, known_model
from nekro_core.llm.model import Price, PriceSource
from nekro_core.llm.providers import preset_of, provider_presets
from nekro_core.llm.settings import LLMSettings

PRESETS = provider_presets()

PRICED = {"openai", "anthropic", "google", "deepseek", "moonshot", "moonshot-international",
          "zhipu", "zai", "mistral", "groq", "openrouter", "xai", "minimax", "cerebras",
          "together"}  # fmt: skip


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.key)
def test_a_preset_gives_valid_settings(preset) -> None:
    model = preset.models[0] if preset.models else "some-model"
    settings = LLMSettings(base_url=preset.base_url, model=model)
    assert settings.base_url == preset.base_url
    assert preset.docs.startswith("https://")
    assert preset.local == (urlsplit(preset.base_url).hostname == "127.0.0.1")
    assert preset.local or preset.keys.startswith("https://")
    assert preset.local or preset.models


def test_well_known_providers_have_presets() -> None:
    wanted = {"openai", "anthropic", "google", "deepseek", "qwen", "moonshot", "zhipu", "mistral"}
    wanted |= {"groq", "openrouter", "xai", "siliconflow", "volcengine", "ollama", "lmstudio"}
    assert wanted | {"vllm", "llama-cpp"} <= {each.key for each in PRESETS}


def test_a_preset_is_found_by_its_address() -> None:
    found = preset_of("https://api.deepseek.com/v1/")
    assert found is not None
    assert found.key == "deepseek"
    assert preset_of("https://example.org/v1") is None


@pytest.mark.parametrize(
    ("preset", "model"),
    [(each, model) for each in PRESETS if each.key in PRICED for model in each.models],
    ids=lambda value: getattr(value, "key", value),
)
async def test_the_example_models_of_large_providers_have_a_published_price(preset, model) -> None:
    known = await known_model(model, preset.base_url)
    assert known is not None
    assert known.price is not None
    assert known.price.prompt > 0


async def test_a_published_price_has_a_price_of_cached_tokens_and_comes_with_the_context_size() -> (
    None
):
    known = await known_model("gpt-4o", "https://api.openai.com/v1")
    assert known is not None
    assert known.price == Price(
        prompt=2.5, completion=10, cached=1.25, source=PriceSource.PUBLISHED
    )
    assert known.edition.startswith("genai-prices ")
    assert known.context_tokens == 128_000


async def test_a_reseller_has_no_published_price() -> None:
    assert await known_model("gpt-4o", "https://cheap.example/v1") is None


async def test_the_operators_price_wins_even_if_it_is_zero() -> None:
    settings = LLMSettings(
        base_url="https://api.openai.com/v1", model="gpt-4o", prompt_price=0, completion_price=0
    )
    price = await effective_price(settings)
    assert (price.source, price.price) == (
        "operator",
        Price(prompt=0, completion=0, source=PriceSource.OPERATOR),
    )


async def test_an_unknown_price_is_unknown_and_not_zero() -> None:
    settings = LLMSettings(base_url="http://127.0.0.1:8000/v1", model="mine")
    price = await effective_price(settings)
    assert (price.source, price.price) == ("unknown", None)


async def test_if_the_operator_names_no_price_the_published_price_is_used() -> None:
    settings = LLMSettings(base_url="https://api.openai.com/v1", model="gpt-4o")
    price = await effective_price(settings)
    assert price.source == "published"
    assert price.price is not None
    assert price.price.prompt == 2.5
