"""Defines the settings of the log: ``NEKRO_LOG__...``."""

from typing import Literal

from pydantic import Field

from nekro_core.system.live_settings import LiveSettings


class LogSettings(LiveSettings):
    """The form of the log, and how much of it is kept. The setting `LOG_LEVEL` has its level."""

    format: Literal["text", "json"] = "text"
    """How the process prints its log. With `json`, each line is an object as in the files, with
    the chat and the turn."""
    file_mb: int = Field(default=10, ge=1, le=10_000)
    """Megabytes at which a file in `data/logs` is full and the next one begins."""
    files: int = Field(default=5, ge=1, le=1000)
    """How many files are kept. The oldest one is deleted when a new one begins."""
