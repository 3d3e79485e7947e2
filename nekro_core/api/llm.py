"""Re-exports the functions that ask language models for answers or for vectors of texts."""

from nekro_core.compat.nekro_agent.models.functions import (
    OpenAIResponse,
    gen_openai_chat_response,
    gen_openai_embeddings,
    get_model_group_info,
    model_groups,
)
from nekro_core.compat.nekro_agent.models.groups import ModelConfigGroup, ModelGroups
from nekro_core.compat.nekro_agent.models.messages import ContentSegment, OpenAIChatMessage
from nekro_core.llm.model import (
    KeyRejected,
    ModelError,
    ModelRefused,
    ModelUnreachable,
    QuotaExceeded,
    ReplyBroken,
    RequestRejected,
)

__all__ = [
    "ContentSegment",
    "KeyRejected",
    "ModelConfigGroup",
    "ModelError",
    "ModelGroups",
    "ModelRefused",
    "ModelUnreachable",
    "OpenAIChatMessage",
    "OpenAIResponse",
    "QuotaExceeded",
    "ReplyBroken",
    "RequestRejected",
    "gen_openai_chat_response",
    "gen_openai_embeddings",
    "get_model_group_info",
    "model_groups",
]
