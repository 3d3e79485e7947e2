"""The settings of receiving and sending, under ``NEKRO_DELIVERY__``."""

from pydantic import Field

from nekro_core.delivery.media.settings import MediaSettings
from nekro_core.policy.settings import SendRateSettings


class DeliverySettings(SendRateSettings):
    """Limits of sending."""

    text_pieces: int = Field(default=4, ge=0)
    """A text that takes more messages than this is sent as its beginning and a file of the whole,
    where the platform carries files; 0 always sends pieces."""

    longest_wait_s: float = Field(default=60.0, ge=0)
    """A message is dropped if the rate limit would delay it longer than this."""

    call_s: float = Field(default=60.0, gt=0)
    """Time-out of a platform call; after it the outcome is unknown."""

    call_bytes_s: int = Field(default=500_000, gt=0)
    """A call that carries media gets one second more for each of these many bytes."""

    resend_for_s: float = Field(default=600.0, ge=0)
    """A message that was not sent yet (account offline, restart) is still sent if it is younger."""

    retry_s: float = Field(default=2.0, gt=0)
    """Seconds between attempts to send the waiting messages of an offline account."""

    settle_s: float = Field(default=15.0, ge=0)
    """How long a message with an unknown outcome may be under way. Where the platform can be asked
    and does not show the message after this time, it is sent again, in its place; 0 never asks."""

    waiting_per_chat: int = Field(default=200, gt=0)
    """Messages that may wait for one chat (account offline, platform slow). Further ones are
    dropped, and their senders get a receipt that says so."""

    media: MediaSettings = MediaSettings()
