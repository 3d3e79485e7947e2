"""Defines the settings of model groups (``NEKRO_MODELS__<name>__*``). A group has the settings of
one model. Roles and plugins name the groups that they use."""

from typing import Literal

from pydantic import Field

from nekro_core.llm.settings import LLMSettings


class ModelGroupSettings(LLMSettings):
    """One endpoint. Plugins use the name of its group, which is a part of the settings' names:
    ``NEKRO_MODELS__DRAW__BASE_URL`` belongs to the group ``draw``."""

    type: Literal["chat", "embedding", "draw"] = "chat"
    """The kind of requests that the model answers."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
