"""Decides whether a chain may ask a model that costs more than the first model of the chain."""

from dataclasses import dataclass

from nekro_core.llm.model import Price, PriceSource

_PROMPT_SHARE = 0.75
"""To compare models, prices for prompts and for replies are mixed. This is the share of prompt
tokens in the mix. Prompts of chats are longer than replies, and public comparisons of models also
mix three to one."""


def blended(price: Price) -> float | None:
    """Return the price of a million tokens, of which three quarters are tokens of prompts; None if
    the price is not known."""
    match price.source:
        case PriceSource.UNKNOWN:
            return None
        case PriceSource.FREE:
            return 0.0
    return _PROMPT_SHARE * price.prompt + (1 - _PROMPT_SHARE) * price.completion


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRule:
    """What a model of a chain may cost.

    Attributes:
        max_price: Largest blended price of a million tokens; None if only the first model of the
            chain sets the limit.
        allow_dearer: Whether a later model may cost more than the first model.
    """

    max_price: float | None = None
    allow_dearer: bool = False

    def objection(self, price: Price, first: Price) -> str:
        """Return why a model with this price must not be asked; empty if it may be asked. ``first``
        is the price of the chain's first model.

        An unknown price may be any price. Prices in the settings are in the operator's currency,
        and published prices are in US dollars, so a price of one kind cannot be compared with a
        price of the other kind.
        """
        cost = blended(price)
        if cost == 0:
            return ""
        if self.max_price is not None:
            if cost is not None:
                over = cost > self.max_price
                return f"it costs {cost:g}, and max_price is {self.max_price:g}" if over else ""
            named_first = price == first
            if not (named_first or self.allow_dearer):
                return "its price is not known, and max_price is set"
            return ""
        if self.allow_dearer:
            return ""
        limit = blended(first)
        if cost is None:
            return "" if limit is None else "its price is not known"
        if limit is None:
            return "the price of the chain's first model is not known"
        if limit and price.source is not first.source:
            return "its price is in another currency than that of the chain's first model"
        return f"it costs {cost:g}, and the chain's first model {limit:g}" if cost > limit else ""
