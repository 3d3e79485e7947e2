"""Counts plugins' requests to models, by turn, chat and person."""

from collections.abc import Callable
from typing import Protocol

from nekro_core.llm.model import ModelProfile, QuotaExceeded, RequestUsage
from nekro_core.plugins.authoring.binding import current_owner
from nekro_core.plugins.authoring.current import current_call
from nekro_core.store import ModelUse


class ModelUseWriter(Protocol):
    """Stores model uses (`nekro_core.store.Store.model_uses`)."""

    def add(self, use: ModelUse) -> object:
        """Queue a use, to be written later. Does not block."""


class UsageLedger:
    """The ledger of plugins' requests (`nekro_core.llm.metered_model.RequestLedger`). ``wall``
    returns seconds since 1970."""

    def __init__(self, book: ModelUseWriter, wall: Callable[[], float]) -> None:
        self._book = book
        self._wall = wall

    def check(self) -> None:
        """Raise `QuotaExceeded` if the turn of the current call may make no further request."""
        call = current_call()
        if call is not None and call.meter is not None and (why := call.meter.refusal()):
            raise QuotaExceeded(f"this turn may make no further request to a model: {why}")

    def now(self) -> float:
        """Get the time in seconds since 1970."""
        return self._wall()

    def count(
        self,
        usage: RequestUsage,
        profile: ModelProfile,
        started: float,
        *,
        role: str = "",
        chat: str = "",
        extra_cost: float = 0.0,
    ) -> None:
        """Count a request. It is counted for the chat of the current call or, if no call runs, for
        ``chat``."""
        call, owner = current_call(), current_owner()
        cost = profile.price.of(usage) + extra_cost
        if call is not None and call.meter is not None:
            call.meter.spend_extra(usage, cost)
        self._book.add(
            ModelUse(
                plugin=(call.owner if call else "") or (owner.item if owner else ""),
                model=profile.name,
                cost=cost,
                price_source=profile.price.source,
                prompt_tokens=usage.prompt_tokens,
                cached_tokens=usage.cached_tokens,
                completion_tokens=usage.completion_tokens,
                estimated=usage.estimated,
                chat_key=call.chat_key if call else chat,
                user_id=call.from_user_id if call else "",
                run_id=call.run_id if call else "",
                started=started,
                seconds=self._wall() - started,
                role=role,
            )
        )
