"""Gives plugins access to models: the bot's own model, and any endpoint that a plugin names."""

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from loguru import logger
from pydantic import ValidationError

from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.http_model import HttpChatModel
from nekro_core.llm.metered_model import MeteredModel
from nekro_core.llm.model import ChatModel, Price, RequestRejected
from nekro_core.llm.replaceable import ReplaceableModel
from nekro_core.llm.role_budget import BudgetedRoles
from nekro_core.llm.roles import ModelRole
from nekro_core.llm.settings import LLMSettings
from nekro_core.plugins.models.metered import UsageLedger

_MOST_KEPT = 16
"""Maximum number of endpoints whose connections stay open. If there are more, the least recently
used endpoint is closed."""


class PluginModels:
    """The models of one bot for its plugins. Every request to them is counted in the ledger."""

    def __init__(
        self,
        own: ChatModel,
        settings: LLMSettings,
        others: Mapping[str, ModelGroupSettings],
        ledger: UsageLedger,
        *,
        make: Callable[[LLMSettings], ChatModel] = HttpChatModel,
        roles: BudgetedRoles | None = None,
    ) -> None:
        self._roles = roles
        self.own = MeteredModel(own, ledger)
        """The bot's own model."""
        self.ledger = ledger
        self._settings = settings
        self._others = others
        self._make = make
        self._kept: OrderedDict[str, ReplaceableModel] = OrderedDict()

    async def chat(
        self, model: str, *, base_url: str = "", api_key: str = "", proxy: str = ""
    ) -> MeteredModel:
        """Get the model of this name at this URL. Without a URL, this is the bot's own model,
        whatever the name. Raises `RequestRejected` if the values are not valid for an endpoint."""
        base_url = base_url.strip().rstrip("/")
        if not base_url:
            return self.own
        if (base_url, model, api_key) == self._mine(self._settings):
            return self.own
        key = json.dumps([base_url, model, api_key, proxy])
        found = self._kept.pop(key, None) or self._made(base_url, model, api_key, proxy)
        self._kept[key] = found
        while len(self._kept) > _MOST_KEPT:
            _, old = self._kept.popitem(last=False)
            await old.retire()
        return MeteredModel(found, self.ledger)

    def role(self, role: str) -> MeteredModel | None:
        """Get the model of a role; None if the operator configured none. Its requests are counted
        for the plugin and for the role. Raises `RequestRejected` if there is no such role."""
        wanted = _role(role)
        model = self._roles.uncounted(wanted) if self._roles else None
        return MeteredModel(model, self.ledger, role=wanted.value) if model else None

    def groups_of(self, role: str) -> tuple[str, ...]:
        """Get the names of the model groups of a role in the order in which they are to be asked.
        Raises `RequestRejected` if there is no such role."""
        wanted = _role(role)
        return self._roles.names(wanted) if self._roles else ()

    def price(self, base_url: str, model: str) -> Price:
        """Get the operator's price of a model; zero if the operator configured no such model."""
        wanted = base_url.strip().rstrip("/"), model
        known = (each for each in self._others.values() if self._mine(each)[:2] == wanted)
        return next((each.price for each in known), Price())

    async def aclose(self) -> None:
        """Close the connections, except those of the bot's own model."""
        while self._kept:
            await _close(self._kept.popitem()[1])

    async def replace(
        self, settings: LLMSettings, others: Mapping[str, ModelGroupSettings]
    ) -> None:
        """Use these settings for all later requests. Running requests end with the old settings."""
        self._settings, self._others = settings, others
        while self._kept:
            await self._kept.popitem()[1].retire()

    def _made(self, base_url: str, model: str, api_key: str, proxy: str) -> ReplaceableModel:
        known = (
            each for each in self._others.values() if self._mine(each)[:2] == (base_url, model)
        )
        given: dict[str, Any] = {"vision": True, "audio": True}
        if (settings := next(known, None)) is not None:
            given = settings.model_dump(include=set(LLMSettings.model_fields), exclude_unset=True)
        given |= {"base_url": base_url, "model": model, "api_key": api_key, "proxy": proxy}
        # Drop the operator's extra fields, because plugins pass extra fields with each request.
        given["extra_body"] = {}
        try:
            return ReplaceableModel(self._make(LLMSettings(**given)))
        except ValidationError as error:
            said = "; ".join(f"{fault['loc'][-1:]}: {fault['msg']}" for fault in error.errors())
            raise RequestRejected(f"this is no endpoint of a model: {said}") from None

    def _mine(self, settings: LLMSettings) -> tuple[str, str, str]:
        return settings.base_url, settings.model, settings.api_key.get_secret_value()


def _role(name: str) -> ModelRole:
    try:
        return ModelRole(name)
    except ValueError:
        known = ", ".join(ModelRole)
        raise RequestRejected(f"there is no role {name!r}: expected one of {known}") from None


async def _close(model: ChatModel) -> None:
    with anyio.move_on_after(2, shield=True):
        try:
            await model.aclose()
        except OSError as error:
            logger.debug("an endpoint's connections cannot be closed: {}", error)
