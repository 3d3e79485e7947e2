"""The settings of a model (``NEKRO_LLM__*``)."""

from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from nekro_core.llm.model import Price


class LLMSettings(BaseModel):
    """One OpenAI-compatible endpoint. Without a ``base_url`` the embedded model answers.

    Times are seconds. ``api_key`` may stay empty for an endpoint of your own that asks for none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    base_url: str = ""
    """Address of the API, most often ending in ``/v1``."""
    api_key: SecretStr = SecretStr("")
    model: str = ""
    """Model name as the provider writes it."""
    vision: bool = False
    """Whether the model takes pictures; otherwise they are replaced by a note."""
    audio: bool = False
    """Whether the model takes sound."""
    grammar: bool = False
    """Whether the endpoint takes a GBNF ``grammar`` field (llama.cpp's server does)."""
    context_tokens: int = Field(default=32_768, ge=1024)
    """Most tokens of prompt and reply together."""
    prompt_price: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Price of a million prompt tokens, in your currency; for quotas in money."""
    cached_price: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Price of a million prompt tokens that the provider had cached; unset for the price above."""
    completion_price: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Price of a million tokens of replies."""
    proxy: str = ""
    """HTTP or SOCKS proxy for this endpoint alone; empty uses the environment's proxy."""
    connect_s: float = Field(default=10.0, gt=0)
    first_token_s: float = Field(default=90.0, gt=0)
    """Longest wait for the first token. Large models think first; a thought counts as a token
    here."""
    between_tokens_s: float = Field(default=45.0, gt=0)
    total_s: float = Field(default=300.0, gt=0)
    """Longest time for one whole reply, retries included."""
    retries: int = Field(default=2, ge=0, le=10)
    """Further attempts while no part of the reply has arrived."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Provider-specific fields, sent with every request."""

    @field_validator("base_url")
    @classmethod
    def _check_address(cls, value: str) -> str:
        value = value.strip().rstrip("/")
        if not value:
            return value
        address = urlsplit(value)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ValueError(
                "expected an address such as https://api.example.com/v1, beginning with http"
            )
        if address.username or address.password:
            raise ValueError("holds a user name or password: put the key into api_key instead")
        return value

    @field_validator("api_key")
    @classmethod
    def _check_key(cls, value: SecretStr) -> SecretStr:
        key = value.get_secret_value().strip()
        if not (key.isascii() and key.isprintable()):
            raise ValueError("a key is printable ASCII: it was copied with something else in it")
        return SecretStr(key)

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.base_url and not self.model:
            raise ValueError("base_url is set but model is not: name the model to ask")
        if self.model and not self.base_url:
            raise ValueError("model is set but base_url is not: say where the model is reached")
        return self

    @property
    def price(self) -> Price:
        """What the model costs."""
        return Price(
            prompt=self.prompt_price, completion=self.completion_price, cached=self.cached_price
        )

    @property
    def configured(self) -> bool:
        """Whether the settings name an endpoint."""
        return bool(self.base_url)
