"""The settings of the way in and the way out, under ``NEKRO_DELIVERY__``."""

from pydantic import Field

from nekro_core.delivery.media.settings import MediaSettings
from nekro_core.policy.settings import SendRateSettings


class DeliverySettings(SendRateSettings):
    """Limits of sending."""

    text_pieces: int = Field(default=4, ge=0)
    """A text that takes more messages than this is sent as its beginning and a file of the whole,
    where the platform carries files; 0 always sends pieces."""

    longest_wait_s: float = Field(default=60.0, ge=0)
    """A message that would have to wait longer for its place in the window is dropped."""

    call_s: float = Field(default=60.0, gt=0)
    """Longest platform call; after it the outcome is unknown."""

    call_bytes_s: int = Field(default=500_000, gt=0)
    """A call that carries media has a second more for each so many bytes."""

    resend_for_s: float = Field(default=600.0, ge=0)
    """A message never handed over (account offline, restart) is sent late only if younger."""

    retry_s: float = Field(default=2.0, gt=0)
    """How often an offline account's waiting messages are tried."""

    settle_s: float = Field(default=15.0, ge=0)
    """How long a message may be on its way whose outcome is unknown. Where the platform can be
    asked and does not show it after so long, it is sent again, in its place; 0 never asks."""

    waiting_per_chat: int = Field(default=200, gt=0)
    """Messages that may stand in line to one chat (account offline, platform slow); what comes
    beyond is dropped, and whoever sent it is told."""

    media: MediaSettings = MediaSettings()
