"""The settings of kept media, under ``NEKRO_DELIVERY__MEDIA__``."""

from pydantic import BaseModel, ConfigDict, Field, field_validator

from nekro_core.delivery.media.fetch_policy import PrivateHost


class MediaSettings(BaseModel):
    """Bounds of what is kept of received pictures, voices and files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_bytes: int = Field(default=32 * 1024 * 1024, gt=0)
    """Largest medium. Above what the platforms let a phone send as picture or voice."""

    max_pixels: int = Field(default=36_000_000, gt=0)
    """Largest picture, width times height: decoded it takes 4 bytes each, 144 MB here."""

    sent_bytes: int = Field(default=512 * 1024 * 1024, gt=0)
    """Largest file that is sent. It goes as a link, or in pieces, where the platform's own limit is
    lower; NapCat and LLBot take this much in pieces."""

    link_address: str = Field(default="", pattern=r"^(https?://[^\s?#]+)?$")
    """How this bot's web server is reached from outside (``https://bot.example.org``), for links to
    files that a platform does not carry. Its name must be in ``WEB_ALLOWED_HOSTS`` too. Empty: no
    such links are made."""

    link_s: float = Field(default=3600.0, gt=0)
    """How long such a link works."""

    fetch_s: float = Field(default=20.0, gt=0)
    """Longest fetch from first to last byte."""

    silent_s: float = Field(default=5.0, gt=0)
    """Longest wait for the next byte of a fetch, or for its host's address. A chat's messages wait
    for a picture, so a server that says nothing is given up long before ``fetch_s``."""

    max_redirects: int = Field(default=3, ge=0, le=10)
    """Platforms' file servers redirect once; a chain is somebody's game."""

    chat_quota_bytes: int = Field(default=1024 * 1024 * 1024, gt=0)
    """Uploads kept of one chat. Over it the oldest go: a flood costs a chat only its own past."""

    keep_days: float = Field(default=180.0, ge=0)
    """A medium that nobody received or sent again for so long goes; 0 keeps them."""

    total_bytes: int = Field(default=20 * 1024 * 1024 * 1024, gt=0)
    """Uploads kept of all chats together. Over it the oldest go."""

    private_hosts: frozenset[str] = frozenset()
    """Hosts with their ports (``127.0.0.1:3001``, ``[::1]:3001``) that received media may be
    fetched from although their address is not public: a platform's program on this machine or in
    its network. Others are refused, since a chat member may name the URL. The bot's own ports are
    refused always, and to the model's code this opens nothing."""

    @field_validator("private_hosts")
    @classmethod
    def _hosts_and_ports(cls, value: frozenset[str]) -> frozenset[str]:
        for entry in value:
            PrivateHost.parse(entry)
        return value
