"""The models of a bot in nekro-agent's form: model groups by name, made from the bot's settings."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.settings import LLMSettings

EMBEDDED = "embedded://local"
"""An address that means the models that are part of the bot. Only the functions of this package
understand this address."""
DEFAULT, EMBEDDING = "default", "text-embedding"
_EMBEDDED_EMBEDDING = "n-grams"


class ModelConfigGroup(BaseModel):
    """A model and how to reach it. The attributes have the names that plugins for nekro-agent read.

    Attributes:
        GROUP_NAME: The operator's name for the group.
        CHAT_MODEL: The name of the model at its provider.
        CHAT_PROXY: The address of a proxy; empty for no proxy.
        BASE_URL: The address of the API, or ``embedded://local`` for a model that is part of the
            bot.
        API_KEY: The provider's key in plain text; empty for no key.
        MODEL_TYPE: ``chat``, ``embedding`` or ``draw``.
        ENABLE_VISION: Whether the model accepts pictures.
        ENABLE_COT: Always False, because a model's thoughts are not stored.
        TEMPERATURE: The operator's setting; if None, the provider chooses the value.
        TOP_P: The operator's setting; if None, the provider chooses the value.
        TOP_K: Always None, because there is no setting for it.
        PRESENCE_PENALTY: Always None, because there is no setting for it.
        FREQUENCY_PENALTY: Always None, because there is no setting for it.
        EXTRA_BODY: Fields that are added to the body of each request; None for no fields.
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
    """Model groups by name. ``default`` is the bot's own model. ``text-embedding`` makes vectors in
    this process. The operator's settings may define more. Reading a missing name raises a
    `KeyError` that lists all names."""

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
        """Make the model groups of a bot.

        Args:
            own: The settings of the bot's own model.
            others: The groups in the operator's settings, by name.
            embedded: The name of the embedded model, which is the group ``default`` if ``own``
                names no model.

        Returns:
            The groups ``default`` and ``text-embedding``, and the groups in ``others``. If a group
            in ``others`` has one of these two names, it replaces the group of this name.
        """
        groups = cls()
        replace_groups(groups, own, others, embedded=embedded)
        return groups


def replace_groups(
    groups: ModelGroups,
    own: LLMSettings,
    others: Mapping[str, ModelGroupSettings],
    *,
    embedded: str,
) -> None:
    """Make ``groups`` contain exactly the groups of these settings. See `ModelGroups.of`."""
    default = _group(DEFAULT, own)
    if not own.configured:
        default = ModelConfigGroup(GROUP_NAME=DEFAULT, CHAT_MODEL=embedded, BASE_URL=EMBEDDED)
    groups.clear()
    groups[DEFAULT] = default
    groups[EMBEDDING] = ModelConfigGroup(
        GROUP_NAME=EMBEDDING,
        CHAT_MODEL=_EMBEDDED_EMBEDDING,
        BASE_URL=EMBEDDED,
        MODEL_TYPE="embedding",
    )
    for name, settings in others.items():
        groups[name] = _group(name, settings)


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
