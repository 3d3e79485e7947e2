"""Defines the settings of alerts: ``NEKRO_ALERTS__...``."""

from pydantic import Field, SecretStr, field_validator

from nekro_core.chat import ChatKey
from nekro_core.delivery.media.fetch_policy import PrivateHost
from nekro_core.system.live_settings import LiveSettings


class AlertSettings(LiveSettings):
    """Who is told what is wrong with the bot, and from when on something counts as wrong."""

    chats: tuple[str, ...] = ()
    """The keys of the chats that are told."""
    webhook_url: str = ""
    """An address that gets each alert as JSON. If it is empty, there is no webhook."""
    webhook_secret: SecretStr = SecretStr("")
    """The secret with which requests to the webhook are signed. If it is empty, they are not
    signed."""
    private_hosts: tuple[str, ...] = ()
    """Hosts with ports, such as `10.0.0.5:8080`, that the webhook may reach although their
    addresses are not public."""
    account_away_minutes: float = Field(default=10.0, ge=0)
    """Minutes after which an account that is not connected is an alert. 0 switches this alert
    off."""
    budget_percent: float = Field(default=80.0, ge=0, le=100)
    """Used percentage of a daily budget of the whole bot, or of background work, that is an alert.
    0 switches this alert off."""
    disk_free_mb: int = Field(default=1000, ge=0)
    """If fewer megabytes are free on the disk of the data folder, this is an alert. 0 switches it
    off."""
    unknown_sends: int = Field(default=1, ge=0)
    """How many messages of one hour whose outcome is unknown are an alert. 0 switches it off."""
    given_up_messages: int = Field(default=1, ge=0)
    """How many messages of one hour that were given up, because each ended several workers, are an
    alert. 0 switches it off."""
    crashes: int = Field(default=3, ge=0, le=20)
    """How many crashes within a quarter of an hour are an alert. 0 switches it off."""
    look_s: float = Field(default=60.0, ge=1)
    """Seconds between two looks."""

    @field_validator("chats")
    @classmethod
    def _chat_keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            ChatKey.parse(each)  # The error says what is wrong with the key.
        return value

    @field_validator("webhook_url")
    @classmethod
    def _an_address(cls, value: str) -> str:
        value = value.strip()
        if value and not value.startswith(("https://", "http://")):
            raise ValueError(f"{value[:100]!r}: expected an address that begins with https://")
        return value

    @field_validator("private_hosts")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if PrivateHost.parse(each).port is None:
                raise ValueError(
                    f"{each[:100]!r}: expected a host with its port, such as {each}:443"
                )
        return value
