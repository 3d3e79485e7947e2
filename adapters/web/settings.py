"""Reads the adapter's settings, by NoneBot's names: ``WEB_ALLOWED_HOSTS``, ``WEB_BOT_NAME``, ..."""

import json
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, Field, SecretStr, field_validator

MAX_ATTACHMENTS = 8
"""Most pictures and files of one message. More should be sent as an archive."""
MAX_TEXT = 20_000
"""Most characters of one message."""
MAX_MEDIUM_BYTES = 32 * 1024 * 1024
"""Largest attachment, the same as the media keeper's own default."""
LEAST_DIFFERENT = 8
"""Fewest different characters of a chosen access token. The right token is accepted even after many
wrong ones, so it must be hard to guess."""
MAX_BODY_BYTES = 64 * 1024 * 1024
"""Largest request. The largest attachment takes 43 MB in base64."""


class WebSettings(BaseModel):
    """What an operator can set."""

    web_allowed_hosts: frozenset[str] = frozenset()
    """Host names under which the page may be opened, besides loopback and numeric addresses."""
    web_access_token: SecretStr | None = Field(None, min_length=16)
    """Token of the HTTP API. If it is not set, one is made at the first start. At least 16
    characters, 8 of them different: ``openssl rand -hex 32`` makes a good one."""
    web_bot_name: str = Field("Nekro", min_length=1, max_length=40)
    """The bot's name on the page."""
    web_session_days: float = Field(30.0, gt=0)
    """How long a browser stays logged in."""

    @field_validator("web_allowed_hosts", mode="before")
    @classmethod
    def _read_list(cls, value: Any) -> Any:
        # Values from the process environment are not parsed yet: a list may be JSON or comma text.
        if isinstance(value, str):
            text = value.strip()
            try:
                value = json.loads(text) if text.startswith("[") else text.split(",")
            except json.JSONDecodeError:
                raise ValueError(
                    f'{text!r}: expected host names as ["a.example", "b.example"] or a, b'
                ) from None
        if isinstance(value, (list, tuple, set, frozenset)):
            return frozenset(str(name).strip().lower() for name in value if str(name).strip())
        return value

    @field_validator("web_access_token")
    @classmethod
    def _hard_to_guess(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(set(value.get_secret_value())) < LEAST_DIFFERENT:
            raise ValueError(
                f"a token that can be guessed; expected at least {LEAST_DIFFERENT} different "
                "characters, for example what `openssl rand -hex 32` prints"
            )
        return value

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Self:
        """Read the adapter's settings out of NoneBot's. Raises `pydantic.ValidationError`."""
        names = cls.model_fields.keys() & settings.keys()
        return cls.model_validate({name: settings[name] for name in names})
