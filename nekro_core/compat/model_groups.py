"""``ModelConfigGroup``: the bot's model under the names of existing plugins."""

from typing import Any

from pydantic import BaseModel

from nekro_core.compat.host import Host

__all__ = ["ModelConfigGroup", "model_groups"]


class ModelConfigGroup(BaseModel):
    """How a model is reached and asked. ``MODEL_TYPE`` is ``chat``, ``embedding`` or ``draw``."""

    GROUP_NAME: str = "default"
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
    EXTRA_BODY: str | None = None


def model_groups(host: Host) -> dict[str, Any]:
    """The groups by name: ``default`` is the bot's own model."""
    llm = host.llm
    return {
        "default": ModelConfigGroup(
            CHAT_MODEL=llm.model,
            BASE_URL=llm.base_url,
            API_KEY=llm.api_key.get_secret_value(),
        )
    }
