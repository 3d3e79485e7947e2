"""Describes the roles of models for operators: which models a role has, in which order they are
asked, and in which state they are."""

from dataclasses import dataclass

from nekro_core.llm.breaker import BreakerState
from nekro_core.llm.chain import ChainLink, ModelChain
from nekro_core.llm.chains import ModelChains
from nekro_core.llm.model import PriceSource
from nekro_core.llm.price_rule import blended
from nekro_core.llm.roles import ModelRole


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleModelView:
    """A model of a role.

    Attributes:
        name: The name of its group, ``default`` or ``embedded``.
        model: Its name at the provider; empty if the role does not answer chat requests.
        state: ``closed`` if it is asked, ``open`` while it cools down, ``half_open`` if the next
            request tries it.
        reason: Why it cools down (`nekro_core.llm.model.PassReason`); empty if it does not.
        detail: The error that began the cool-down.
        seconds: Seconds until it is tried again.
        objection: Why it is not asked because of its price; empty if its price is no obstacle.
        price: The price of a million tokens, of which three quarters are tokens of prompts; None if
            it is not known.
        price_source: Where the price comes from.
    """

    name: str
    model: str = ""
    state: BreakerState = BreakerState.CLOSED
    reason: str = ""
    detail: str = ""
    seconds: float = 0.0
    objection: str = ""
    price: float | None = None
    price_source: PriceSource = PriceSource.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleView:
    """A role. ``names`` are the names in the settings. ``models`` are the models that are asked. If
    the settings name no model for ``chat``, ``models`` has only the default model."""

    role: str
    names: tuple[str, ...]
    models: tuple[RoleModelView, ...]


def role_views(chains: ModelChains) -> list[RoleView]:
    """Return all roles, and the entry ``saving``: the models that answer when little is left of a
    daily budget."""
    views = []
    for role in (*ModelRole, "saving"):
        names: tuple[str, ...] = getattr(chains.settings, str(role))
        asked = chains.settings.of(role) if isinstance(role, ModelRole) else names
        chain = chains.chain(asked) if asked and answers_chats(str(role)) else None
        models = _models(chain) if chain else tuple(RoleModelView(name=name) for name in asked)
        views.append(RoleView(role=str(role), names=names, models=models))
    return views


def answers_chats(role: str) -> bool:
    """Return True if the models of a role answer chat requests."""
    return role in ("saving", ModelRole.CHAT, ModelRole.QUICK, ModelRole.VISION)


def _models(chain: ModelChain) -> tuple[RoleModelView, ...]:
    return tuple(_model(chain, link) for link in chain.links)


def _model(chain: ModelChain, link: ChainLink) -> RoleModelView:
    profile, breaker = link.model.profile, link.breaker
    return RoleModelView(
        name=link.name,
        model=profile.name,
        state=breaker.state,
        reason=breaker.reason.value if breaker.reason else "",
        detail=breaker.detail,
        seconds=round(breaker.remaining_s, 1),
        objection=chain.objection(link),
        price=blended(profile.price),
        price_source=profile.price.source,
    )
