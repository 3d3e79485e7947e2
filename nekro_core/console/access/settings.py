"""Defines and reads the settings of the web site: ``WEB_ALLOWED_HOSTS`` and others."""

import json
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, Field, SecretStr, field_validator

LEAST_DIFFERENT = 8
"""Minimum number of different characters in an access token that the operator chooses. A token must
be hard to guess, because the right token is accepted even after many wrong ones."""


class AccessSettings(BaseModel):
    """Who may open the web site."""

    web_allowed_hosts: frozenset[str] = frozenset()
    """Host names at which the page may be opened. Loopback and numeric addresses need no entry."""
    web_access_token: SecretStr | None = Field(None, min_length=16)
    """The owner's token for the page and the HTTP API. If it is not set, the first start makes one.
    It needs at least 16 characters, 8 of them different: ``openssl rand -hex 32`` makes a good
    token."""
    web_session_days: float = Field(30.0, gt=0)
    """Days for which a browser stays logged in."""

    @field_validator("web_allowed_hosts", mode="before")
    @classmethod
    def _read_list(cls, value: Any) -> Any:
        # A value from the process environment is a text: JSON, or names with commas between.
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
        """Read these settings from all settings. Raises `pydantic.ValidationError`."""
        names = cls.model_fields.keys() & settings.keys()
        return cls.model_validate({name: settings[name] for name in names})
