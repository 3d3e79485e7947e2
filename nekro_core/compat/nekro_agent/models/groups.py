"""The models of a bot as existing plugins see them: groups by name, over our settings."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.settings import LLMSettings

EMBEDDED = "embedded://local"
"""The address of what answers inside this process: no endpoint, only our own functions know it."""
DEFAULT, EMBEDDING = "default", "text-embedding"
_EMBEDDED_EMBEDDING = "n-grams"


class ModelConfigGroup(BaseModel):
    """One model and how it is reached. The names are those that existing plugins read."""

    GROUP_NAME: str = ""
    CHAT_MODEL: str = ""
    CHAT_PROXY: str = ""
    BASE_URL: str = ""
    API_KEY: str = ""
    MODEL_TYPE: str = "chat"
    ENABLE_VISION: bool = False
    ENABLE_COT: bool = False
    TEMPERATURE: float | None = None
    TOP_P: float | None = None
    TOP_K: int | None = None
    PRESENCE_PENALTY: float | None = None
    FREQUENCY_PENALTY: float | None = None
    EXTRA_BODY: dict[str, Any] | None = Field(default=None)


class ModelGroups(dict[str, ModelConfigGroup]):
    """Groups by name: ``default`` is the bot's own model, ``text-embedding`` one that needs no
    endpoint, the others are the operator's. One that is missing is a `KeyError` that says so."""

    def __missing__(self, name: str) -> ModelConfigGroup:
        variable = "".join(each if each.isalnum() else "_" for each in str(name)).upper()
        raise KeyError(
            f"there is no model group {name!r}, only {', '.join(sorted(self))}: the operator names "
            f"one in NEKRO_MODELS__{variable}__BASE_URL and __MODEL"
        )

    @classmethod
    def of(
        cls, own: LLMSettings, others: Mapping[str, ModelGroupSettings], *, embedded: str
    ) -> "ModelGroups":
        """Over the operator's settings; ``embedded`` is what our own model is called."""
        groups = cls()
        default = _group(DEFAULT, own)
        if not own.configured:
            default = ModelConfigGroup(GROUP_NAME=DEFAULT, CHAT_MODEL=embedded, BASE_URL=EMBEDDED)
        groups[DEFAULT] = default
        groups[EMBEDDING] = ModelConfigGroup(
            GROUP_NAME=EMBEDDING,
            CHAT_MODEL=_EMBEDDED_EMBEDDING,
            BASE_URL=EMBEDDED,
            MODEL_TYPE="embedding",
        )
        for name, settings in others.items():
            groups[name] = _group(name, settings)
        return groups


def _group(name: str, settings: LLMSettings) -> ModelConfigGroup:
    group = ModelConfigGroup(
        GROUP_NAME=name,
        CHAT_MODEL=settings.model,
        CHAT_PROXY=settings.proxy,
        BASE_URL=settings.base_url,
        API_KEY=settings.api_key.get_secret_value(),
        ENABLE_VISION=settings.vision,
        EXTRA_BODY=settings.extra_body or None,
    )
    if isinstance(settings, ModelGroupSettings):
        group.MODEL_TYPE = settings.type
        group.TEMPERATURE, group.TOP_P = settings.temperature, settings.top_p
    return group
