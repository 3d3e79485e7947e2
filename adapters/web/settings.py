"""Reads the adapter's settings, by NoneBot's names: ``WEB_ALLOWED_HOSTS``, ``WEB_BOT_NAME``, ..."""

import json
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, Field, SecretStr, field_validator

MAX_ATTACHMENTS = 8
"""Pictures and files of one message: more are a folder, and belong into an archive."""
MAX_TEXT = 20_000
"""Characters of one message."""
MAX_MEDIUM_BYTES = 32 * 1024 * 1024
"""Largest attachment, the same as the media keeper's own default."""
LEAST_DIFFERENT = 8
"""Different characters of a chosen access token. Wrong ones are counted, but none is held back, so
it has to be one that nobody guesses."""
MAX_BODY_BYTES = 64 * 1024 * 1024
"""Largest request: one largest attachment as base64 takes 43 MB."""


class WebSettings(BaseModel):
    """What an operator can set."""

    web_allowed_hosts: frozenset[str] = frozenset()
    """Host names, besides loopback and plain addresses, under which the page may be asked for."""
    web_access_token: SecretStr | None = Field(None, min_length=16)
    """Token of the HTTP API; one is made at the first start where this is unset. At least 16
    characters, 8 of them different: ``openssl rand -hex 32`` makes a good one."""
    web_bot_name: str = Field("Nekro", min_length=1, max_length=40)
    """What the page calls the bot."""
    web_session_days: float = Field(30.0, gt=0)
    """How long a browser stays logged in."""

    @field_validator("web_allowed_hosts", mode="before")
    @classmethod
    def _read_list(cls, value: Any) -> Any:
        # The process environment is handed on unread, so a list may still be JSON or comma text.
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
        """The adapter's part of NoneBot's configuration. Raises `pydantic.ValidationError`."""
        names = cls.model_fields.keys() & settings.keys()
        return cls.model_validate({name: settings[name] for name in names})
