"""Defines the settings of the embedded model (``NEKRO_EMBEDDED__*``)."""

from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from nekro_core.system.live_settings import LiveSettings


class EmbeddedSettings(LiveSettings):
    """The model that answers if the settings name no endpoint. Times are in seconds."""

    model_file: Path | None = None
    """Your own GGUF file. Its hash is not checked, and nothing is downloaded."""
    download: bool = True
    """Whether missing weights may be downloaded."""
    hub_url: str = "https://huggingface.co"
    """Address of the model hub, or of a mirror with the same protocol. If it is empty, the hub is
    not used."""
    threads: int = Field(default=0, ge=0)
    """Number of threads that compute. 0 means the number of cores that this process may use."""
    context_tokens: int = Field(default=6144, ge=2048)
    """Maximum number of tokens of prompt and reply together. 1,000 tokens need 36 MB of memory."""
    start_s: float = Field(default=180.0, gt=0)
    """Time limit for loading the model."""
    idle_unload_s: int = Field(default=0, ge=0)
    """Idle time after which the weights are unloaded until the next request. With 0, they are never
    unloaded."""

    @field_validator("hub_url")
    @classmethod
    def _check_address(cls, value: str) -> str:
        try:
            address = urlsplit(value)
            usable = address.scheme in ("http", "https") and bool(address.hostname)
        except ValueError:
            usable = False
        if value and not usable:
            raise ValueError(f"{value!r} is no address: expected https://..., or nothing")
        return value
