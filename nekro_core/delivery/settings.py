"""The settings of receiving and sending, under ``NEKRO_DELIVERY__``."""

from typing import Literal

from pydantic import Field

from nekro_core.delivery.media.settings import MediaSettings
from nekro_core.policy.settings import SendRateSettings


class DeliverySettings(SendRateSettings):
    """Limits of sending."""

    text_pieces: int = Field(default=4, ge=0)
    """A text that needs more messages than this is sent as its beginning and a file of the whole
    text, if the platform carries files. With 0, all pieces are always sent."""

    markdown: bool = True
    """Whether the Markdown that models write is shown as markup, or without its marks on platforms
    without markup. If not, people see it as the model wrote it."""

    longest_wait_s: float = Field(default=60.0, ge=0)
    """A message is dropped if the rate limit would delay it longer than this."""

    call_s: float = Field(default=60.0, gt=0)
    """Time-out of a platform call. After it the outcome is unknown."""

    call_bytes_s: int = Field(default=500_000, gt=0)
    """The time-out of a call grows by one second each time its media contain this many more
    bytes."""

    resend_for_s: float = Field(default=600.0, ge=0)
    """Maximum age of a message that waits to be sent (account offline, restart). An older message
    is dropped."""

    retry_s: float = Field(default=2.0, gt=0)
    """Seconds between attempts to send the waiting messages of an offline account."""

    settle_s: float = Field(default=15.0, ge=0)
    """How long a message with an unknown outcome may still be on its way. If the platform can be
    asked and does not show the message after this time, the message is sent again, before the later
    messages of its chat. With 0, the platform is never asked."""

    pace_chars_s: float = Field(default=0.0, ge=0)
    """Characters that a person types in a second. If it is not 0, each further message of one turn
    waits as long as a person would type it. People then read several short messages as they would
    read the messages of a person. The turn waits meanwhile. ``pace_chars_s`` in ``conduct.toml``
    sets it for one account or chat."""

    pace_longest_s: float = Field(default=6.0, ge=0)
    """Maximum of the wait that ``pace_chars_s`` causes, in seconds."""

    typing: Literal["auto", "off"] = "auto"
    """Whether people see that the bot is typing while it works on their answer, on platforms that
    can show it. ``typing`` in ``conduct.toml`` sets it for one account or chat."""

    seen_emoji: str = Field(default="", max_length=32)
    """The emoji with which the bot reacts to a message that it is going to answer, for example
    ``👀``. The reaction stays. If empty, the bot does not react. For QQ, write the number of one of
    QQ's faces, for example ``289``, or one of the emoji that QQ allows. ``seen_emoji`` in
    ``conduct.toml`` sets it for one account or chat."""

    waiting_per_chat: int = Field(default=200, gt=0)
    """Maximum number of messages that wait for one chat (account offline, platform slow). Further
    messages are dropped, and their receipts say why."""

    media: MediaSettings = Field(default_factory=MediaSettings)
