"""Defines and reads the adapter's setting, ``WEB_BOT_NAME``, and its limits."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, Field

MAX_ATTACHMENTS = 8
"""Maximum number of pictures and files of one message. More should be sent as an archive."""
MAX_TEXT = 20_000
"""Maximum number of characters of one message."""
MAX_MEDIUM_BYTES = 32 * 1024 * 1024
"""Maximum number of bytes of an attachment. The media keeper has the same limit by default."""


class WebSettings(BaseModel):
    """The adapter's settings."""

    web_bot_name: str = Field("Nekro", min_length=1, max_length=40)
    """The bot's name on the page."""

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Self:
        """Read the adapter's settings from all settings. Raises `pydantic.ValidationError`."""
        names = cls.model_fields.keys() & settings.keys()
        return cls.model_validate({name: settings[name] for name in names})
