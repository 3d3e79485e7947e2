"""A model that comes with the bot: its weights, its process, and the `ChatModel` over both."""

from nekro_core.llm.embedded.fetch import ensure_weights, find_weights
from nekro_core.llm.embedded.model import EmbeddedModel
from nekro_core.llm.embedded.settings import EmbeddedSettings
from nekro_core.llm.embedded.weights import DownloadProgress, WeightsError

__all__ = [
    "DownloadProgress",
    "EmbeddedModel",
    "EmbeddedSettings",
    "WeightsError",
    "ensure_weights",
    "find_weights",
]
