"""Finds the list price and the context window of a model by its name.

The figures are part of the package ``genai-prices``, so nothing is fetched. Importing this package
takes 0.2 s and 14 MB, so it is imported when a price is first needed.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module
from typing import Any, Literal

import anyio.to_thread

from nekro_core.llm.model import Price
from nekro_core.llm.settings import LLMSettings

_PRICES = ("prompt_price", "cached_price", "completion_price")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """What is published about a model.

    Attributes:
        provider: The provider that charges this price.
        model: The name under which the model was found.
        price: The price of a million tokens in US dollars; None if it is not known. If a provider
            charges more for long prompts, this is the price of short ones.
        context_tokens: The largest number of tokens of prompt and reply; None if it is not known.
    """

    provider: str
    model: str
    price: Price | None
    context_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePrice:
    """The price of an endpoint, and where it comes from.

    ``operator``: the settings contain the price, in the operator's currency. ``published``: the
    price is the provider's list price in US dollars. ``unknown``: no price is found; then ``price``
    is None, which is not the same as a price of 0.
    """

    source: Literal["operator", "published", "unknown"]
    price: Price | None = None


async def known_model(model: str, base_url: str = "") -> KnownModel | None:
    """Look a model up.

    Args:
        model: The name as the provider writes it.
        base_url: The address of the endpoint. It decides whose price is meant, because several
            providers may offer the same model. If it is empty, the name alone decides. If the
            address belongs to no known provider, the endpoint is a reseller or the operator's own
            machine, so its price is not known.

    Returns:
        The figures; None if the model is not known at this address.
    """
    return await anyio.to_thread.run_sync(_look_up, model, base_url)


async def effective_price(settings: LLMSettings) -> EffectivePrice:
    """Return the price of an endpoint: the operator's figure if one is written, otherwise the
    provider's list price, otherwise unknown."""
    if settings.model_fields_set.intersection(_PRICES):
        return EffectivePrice(source="operator", price=settings.price)
    known = await known_model(settings.model, settings.base_url) if settings.configured else None
    if known is None or known.price is None:
        return EffectivePrice(source="unknown")
    return EffectivePrice(source="published", price=known.price)


def _look_up(model: str, base_url: str) -> KnownModel | None:
    snapshot: Any = import_module("genai_prices.data_snapshot").get_snapshot()
    address = f"{base_url.strip().rstrip('/')}/" if base_url.strip() else None
    try:
        provider, info = snapshot.find_provider_model(model, None, None, address)
    except LookupError:
        return None
    prices = info.get_prices(datetime.now(UTC))
    prompt, completion = _amount(getattr(prices, "input_mtok", None)), _amount(prices.output_mtok)
    price = None
    if prompt is not None and completion is not None:
        cached = _amount(getattr(prices, "cache_read_mtok", None))
        price = Price(prompt=prompt, completion=completion, cached=cached)
    return KnownModel(
        provider=provider.name, model=info.id, price=price, context_tokens=info.context_window
    )


def _amount(price: Any) -> float | None:
    """Return the price of the shortest prompts; None if there is no price."""
    base = getattr(price, "base", price)
    return float(base) if isinstance(base, Decimal | int | float) else None
