"""The models of a bot as existing plugins see them: groups by name, over our settings."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.settings import LLMSettings

EMBEDDED = "embedded://local"
"""The address that means the models in this process. Only our own functions understand it."""
DEFAULT, EMBEDDING = "default", "text-embedding"
_EMBEDDED_EMBEDDING = "n-grams"


class ModelConfigGroup(BaseModel):
    """One model and how it is reached. The names are those that plugins for nekro-agent read.

    Attributes:
        GROUP_NAME: The operator's name for it.
        CHAT_MODEL: The model's name at its provider.
        CHAT_PROXY: The address of a proxy; empty for none.
        BASE_URL: The address of the API, or ``embedded://local`` for the model in this process.
        API_KEY: The key in plain text; empty for none.
        MODEL_TYPE: ``chat``, ``embedding`` or ``draw``.
        ENABLE_VISION: Whether the model takes pictures.
        ENABLE_COT: Always False: thoughts are not kept.
        TEMPERATURE: The operator's setting; None leaves it to the provider.
        TOP_P: The same.
        TOP_K: Always None: the operator has no setting for it.
        PRESENCE_PENALTY: Always None, for the same reason.
        FREQUENCY_PENALTY: Always None, for the same reason.
        EXTRA_BODY: Fields that are added to each request; None for none.
    """

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
    """Groups by name: ``default`` is the bot's own model, ``text-embedding`` a model that needs no
    endpoint. The operator names the others. A missing name raises a `KeyError` with all names."""

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
        """List the models of a bot.

        Args:
            own: The settings of the bot's own model.
            others: The operator's further groups, by name.
            embedded: The name of the model in this process, which is the default if ``own`` names
                no model.

        Returns:
            The groups ``default``, ``text-embedding`` and those of ``others``, which may replace
            them.
        """
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
