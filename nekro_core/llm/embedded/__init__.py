"""Downloads and runs a small model, which the bot uses when the settings name none."""

from nekro_core.llm.embedded.fetch import ensure_weights, find_weights
from nekro_core.llm.embedded.model import EmbeddedModel, EmbeddedPhase, EmbeddedState
from nekro_core.llm.embedded.settings import EmbeddedSettings
from nekro_core.llm.embedded.weights import DownloadProgress, WeightsError

__all__ = [
    "DownloadProgress",
    "EmbeddedModel",
    "EmbeddedPhase",
    "EmbeddedSettings",
    "EmbeddedState",
    "WeightsError",
    "ensure_weights",
    "find_weights",
]
