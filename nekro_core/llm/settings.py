"""Defines the settings of a model (``NEKRO_LLM__*``)."""

from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from nekro_core.llm.model import Price, PriceSource
from nekro_core.llm.wire_format import ModelProtocol
from nekro_core.system.live_settings import LiveSettings

_PRICES = ("prompt_price", "cached_price", "completion_price")


class LLMSettings(LiveSettings):
    """One endpoint. Without a ``base_url``, the embedded model answers.

    Times are in seconds. ``api_key`` may be empty if the endpoint needs no key.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    base_url: str = ""
    """Address of the API. It usually ends in ``/v1``."""
    protocol: ModelProtocol = ModelProtocol.CHAT
    """The protocol of the API: ``chat`` (Chat Completions, which nearly every provider has),
    ``responses`` (OpenAI's Responses) or ``anthropic`` (Anthropic's Messages)."""
    api_key: SecretStr = SecretStr("")
    """The key of the API. It may be empty if the endpoint needs none."""
    model: str = ""
    """The model's name, as the provider writes it."""
    vision: bool = False
    """Whether the model accepts pictures. If not, a note replaces each picture."""
    audio: bool = False
    """Whether the model accepts sound. If not, a note replaces each sound."""
    grammar: bool = False
    """Whether the endpoint accepts a GBNF ``grammar`` field, as llama.cpp's server does."""
    context_tokens: int = Field(default=32_768, ge=1024)
    """Maximum number of tokens of prompt and reply together. If it is not set, and the provider
    publishes one for this model, that applies."""
    prompt_price: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Price of a million prompt tokens, in your currency. If no price is set, and the provider
    publishes one for this model, that applies, in US dollars."""
    cached_price: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Price of a million prompt tokens that the provider had cached. If it is not set, they cost
    ``prompt_price``."""
    completion_price: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Price of a million tokens of replies."""
    published_figures: bool = True
    """Whether the provider's published price and context apply where these settings name none. They
    come with the package genai-prices; nothing is fetched."""
    proxy: str = ""
    """HTTP or SOCKS proxy for only this endpoint. If it is empty, the environment's proxy is
    used."""
    connect_s: float = Field(default=10.0, gt=0)
    """Longest wait for a connection."""
    first_token_s: float = Field(default=90.0, gt=0)
    """Longest wait for the first token. A large model thinks before it answers; the first token of
    a thought ends this wait."""
    between_tokens_s: float = Field(default=45.0, gt=0)
    """Longest wait for the next token."""
    total_s: float = Field(default=300.0, gt=0)
    """Longest time for a whole reply, including retries."""
    retries: int = Field(default=2, ge=0, le=10)
    """Maximum number of retries of a request. A request is retried only if no part of the reply has
    arrived."""
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
            raise ValueError("contains a user name or password: put the key into api_key instead")
        return value

    @field_validator("api_key")
    @classmethod
    def _check_key(cls, value: SecretStr) -> SecretStr:
        key = value.get_secret_value().strip()
        if not (key.isascii() and key.isprintable()):
            raise ValueError("expected printable ASCII: other characters were copied with the key")
        return SecretStr(key)

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.base_url and not self.model:
            raise ValueError("base_url is set but model is not: name the model too")
        if self.model and not self.base_url:
            raise ValueError("model is set but base_url is not: say where the API is reached")
        return self

    @property
    def price(self) -> Price:
        """Return the prices of the model that these settings name."""
        given = self.model_fields_set.intersection(_PRICES)
        return Price(
            prompt=self.prompt_price,
            completion=self.completion_price,
            cached=self.cached_price,
            source=PriceSource.OPERATOR if given else PriceSource.UNKNOWN,
        )

    @property
    def configured(self) -> bool:
        """Whether the settings name an endpoint."""
        return bool(self.base_url)
