"""The settings of stored media, under ``NEKRO_DELIVERY__MEDIA__``."""

from pydantic import BaseModel, ConfigDict, Field, field_validator

from nekro_core.delivery.media.fetch_policy import PrivateHost


class MediaSettings(BaseModel):
    """Bounds of the stored pictures, voices and files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_bytes: int = Field(default=32 * 1024 * 1024, gt=0)
    """Largest received medium. It is more than platforms let a phone send as picture or voice."""

    max_pixels: int = Field(default=36_000_000, gt=0)
    """Largest picture, width times height. Decoded, a pixel takes 4 bytes: 144 MB with this value.
    """

    sent_bytes: int = Field(default=512 * 1024 * 1024, gt=0)
    """Largest file that is sent. Where the platform's own limit is lower, it is sent as a link or
    in pieces; NapCat and LLBot take this much in pieces."""

    link_address: str = Field(default="", pattern=r"^(https?://[^\s?#]+)?$")
    """The address of this bot's web server from outside (``https://bot.example.org``), for links to
    files that a platform does not carry. Its name must be in ``WEB_ALLOWED_HOSTS`` too. Empty: no
    such links are made."""

    link_s: float = Field(default=3600.0, gt=0)
    """How long such a link works."""

    fetch_s: float = Field(default=20.0, gt=0)
    """Longest fetch from first to last byte."""

    silent_s: float = Field(default=5.0, gt=0)
    """Longest wait for the next byte of a fetch, or for its host's address. A chat's messages wait
    for a picture, so the bot gives up a silent server long before ``fetch_s``."""

    max_redirects: int = Field(default=3, ge=0, le=10)
    """Most redirects of one fetch. Platforms' file servers redirect once; a longer chain is
    suspicious."""

    chat_quota_bytes: int = Field(default=1024 * 1024 * 1024, gt=0)
    """Most bytes stored for one chat. Above it the chat's oldest media are deleted, so a flood
    deletes only media of its own chat."""

    keep_days: float = Field(default=180.0, ge=0)
    """Days after which a medium is deleted that was not received or sent again; 0 keeps all."""

    total_bytes: int = Field(default=20 * 1024 * 1024 * 1024, gt=0)
    """Most bytes stored for all chats together. Above it the oldest media are deleted."""

    private_hosts: frozenset[str] = frozenset()
    """Hosts with their ports (``127.0.0.1:3001``, ``[::1]:3001``) that received media may be
    fetched from although their address is not public: a platform's program on this machine or in
    its network. Others are refused, since a chat member may name the URL. The bot's own ports are
    always refused, and the model's code gets no access through this setting."""

    @field_validator("private_hosts")
    @classmethod
    def _hosts_and_ports(cls, value: frozenset[str]) -> frozenset[str]:
        for entry in value:
            PrivateHost.parse(entry)
        return value
