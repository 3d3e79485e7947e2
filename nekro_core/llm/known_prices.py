"""Finds the list price and the context window of a model by its name.

The figures are part of the package ``genai-prices``, so nothing is fetched. Importing this package
takes 0.2 s and 14 MB, so it is imported when a price is first needed.
"""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import urlsplit

import anyio.to_thread

from nekro_core.llm.model import ModelProfile, Price, PriceSource
from nekro_core.llm.settings import LLMSettings

_PACKAGE = "genai-prices"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """What is published about a model.

    Attributes:
        provider: The provider that charges this price.
        model: The name under which the model was found.
        price: The price of a million tokens in US dollars; None if it is not known. If a provider
            charges more for long prompts, this is the price of short prompts.
        context_tokens: The largest number of tokens of prompt and reply; None if it is not known.
        day: The day for which the price is valid: the day on which the model was looked up.
        edition: The name and version of the package with the figures. The version shows how old
            they may be.
    """

    provider: str
    model: str
    price: Price | None
    context_tokens: int | None
    day: date
    edition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePrice:
    """The price of an endpoint, and where it comes from.

    ``operator``: the settings contain the price, in the operator's currency. ``published``: the
    price is the provider's list price in US dollars. ``unknown``: no price is found; then ``price``
    is None, which is not the same as a price of 0. A published price also has the day for which it
    is valid, and the edition of the list.
    """

    source: Literal["operator", "published", "unknown"]
    price: Price | None = None
    day: date | None = None
    edition: str = ""


async def known_model(model: str, base_url: str = "") -> KnownModel | None:
    """Look a model up.

    Args:
        model: The name as the provider writes it.
        base_url: The address of the endpoint. It decides which provider's price is returned,
            because several providers may offer the same model. If it is empty, the name alone
            decides. If the address belongs to no known provider, the endpoint is a reseller or the
            operator's own machine, so its price is not known.

    Returns:
        The figures; None if the model is not known at this address.
    """
    today = datetime.now(UTC).date()
    return await anyio.to_thread.run_sync(_on_day, model, base_url, today)


async def effective_price(settings: LLMSettings) -> EffectivePrice:
    """Return the price of an endpoint: the operator's price if the settings have one, otherwise the
    provider's list price, otherwise an unknown price."""
    if settings.price.source is PriceSource.OPERATOR:
        return EffectivePrice(source="operator", price=settings.price)
    known = await _published(settings)
    if known is None or known.price is None:
        return EffectivePrice(source="unknown")
    return EffectivePrice(
        source="published", price=known.price, day=known.day, edition=known.edition
    )


async def effective_context(settings: LLMSettings) -> tuple[int, bool]:
    """Return the largest number of tokens of prompt and reply, and whether the provider published
    this number. It is the operator's number if the settings have one, otherwise the published
    number, otherwise the default."""
    if "context_tokens" in settings.model_fields_set:
        return settings.context_tokens, False
    known = await _published(settings)
    if known is None or not known.context_tokens:
        return settings.context_tokens, False
    return known.context_tokens, True


async def with_published_figures(settings: LLMSettings, profile: ModelProfile) -> ModelProfile:
    """Return the profile of a model. If the settings lack the price or the context, the provider's
    published value is used."""
    price = settings.price.source is PriceSource.UNKNOWN
    context = "context_tokens" not in settings.model_fields_set
    known = await _published(settings) if price or context else None
    if known is None:
        return profile
    if price and known.price is not None:
        profile = replace(profile, price=known.price)
    if context and known.context_tokens:
        profile = replace(profile, context_tokens=known.context_tokens)
    return profile


async def _published(settings: LLMSettings) -> KnownModel | None:
    """Return what is published about the model of an endpoint; None if the settings switch
    published figures off. A local address cannot belong to a provider, so it is not looked up: the
    first search imports the package of prices, which takes time."""
    if not settings.configured or not settings.published_figures:
        return None
    if not _may_be_provider(settings.base_url):
        return None
    return await known_model(settings.model, settings.base_url)


def _may_be_provider(base_url: str) -> bool:
    host = (urlsplit(base_url).hostname or "").rstrip(".")
    try:
        ip_address(host)
    except ValueError:
        return "." in host and not host.endswith((".local", ".lan", ".internal", ".localhost"))
    return False


@lru_cache(256)
def _on_day(model: str, base_url: str, day: date) -> KnownModel | None:
    """Look a model up. The answer is remembered for the day."""
    snapshot: Any = import_module("genai_prices.data_snapshot").get_snapshot()
    address = f"{base_url.strip().rstrip('/')}/" if base_url.strip() else None
    try:
        provider, info = snapshot.find_provider_model(model, None, None, address)
    except LookupError:
        return None
    prices = info.get_prices(datetime(day.year, day.month, day.day, tzinfo=UTC))
    prompt, completion = _amount(getattr(prices, "input_mtok", None)), _amount(prices.output_mtok)
    price = None
    if prompt is not None and completion is not None:
        cached = _amount(getattr(prices, "cache_read_mtok", None))
        price = Price(
            prompt=prompt,
            completion=completion,
            cached=cached,
            cache_written=_amount(getattr(prices, "cache_write_mtok", None)),
            source=PriceSource.PUBLISHED,
        )
    return KnownModel(
        provider=provider.name,
        model=info.id,
        price=price,
        context_tokens=info.context_window,
        day=day,
        edition=f"{_PACKAGE} {version(_PACKAGE)}",
    )


def _amount(price: Any) -> float | None:
    """Return the price of the shortest prompts; None if there is no price."""
    base = getattr(price, "base", price)
    return float(base) if isinstance(base, Decimal | int | float) else None
