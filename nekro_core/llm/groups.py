"""The settings of further models that an operator names for plugins
(``NEKRO_MODELS__<name>__*``)."""

from typing import Literal

from pydantic import Field

from nekro_core.llm.settings import LLMSettings


class ModelGroupSettings(LLMSettings):
    """One endpoint with a name that plugins use: ``NEKRO_MODELS__DRAW__BASE_URL``."""

    type: Literal["chat", "embedding", "draw"] = "chat"
    """What the model is for."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
