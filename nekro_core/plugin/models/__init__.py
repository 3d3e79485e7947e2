"""Language models for plugins, in the form that existing plugins know."""

from nekro_core.plugin.models.asking import (
    OpenAIResponse,
    gen_openai_chat_response,
    gen_openai_embeddings,
    get_model_group_info,
    model_groups,
)
from nekro_core.plugin.models.endpoints import PluginModels
from nekro_core.plugin.models.groups import EMBEDDED, ModelConfigGroup, ModelGroups
from nekro_core.plugin.models.messages import ContentSegment, OpenAIChatMessage

__all__ = [
    "EMBEDDED",
    "ContentSegment",
    "ModelConfigGroup",
    "ModelGroups",
    "OpenAIChatMessage",
    "OpenAIResponse",
    "PluginModels",
    "gen_openai_chat_response",
    "gen_openai_embeddings",
    "get_model_group_info",
    "model_groups",
]
