"""The settings of received, stored and sent media, under ``NEKRO_DELIVERY__MEDIA__``."""

from pydantic import Field, field_validator

from nekro_core.delivery.media.fetch_policy import PrivateHost
from nekro_core.system.live_settings import AFTER_RESTART, LiveSettings


class MediaSettings(LiveSettings):
    """Limits for pictures, voices and files."""

    max_bytes: int = Field(default=32 * 1024 * 1024, gt=0)
    """Maximum size in bytes of a received medium. The default is more than a platform lets a phone
    send as a picture or voice."""

    max_pixels: int = Field(default=36_000_000, gt=0)
    """Maximum number of pixels of a picture, width times height. A decoded pixel takes 4 bytes: 144
    MB with this value."""

    sent_bytes: int = Field(default=512 * 1024 * 1024, gt=0)
    """Maximum size in bytes of a file that is sent. If the platform's own limit is lower, a file
    above the platform's limit is sent as a link or in pieces. NapCat and LLBot accept files of this
    size in pieces."""

    link_address: str = Field(
        default="", pattern=r"^(https?://[^\s?#]+)?$", json_schema_extra=AFTER_RESTART
    )
    """The public address of this bot's web server (``https://bot.example.org``), for links to files
    that a platform does not carry. The address's host name must also be in ``WEB_ALLOWED_HOSTS``.
    If empty, no such links are made."""

    link_s: float = Field(default=3600.0, gt=0, json_schema_extra=AFTER_RESTART)
    """Seconds for which such a link works."""

    fetch_s: float = Field(default=20.0, gt=0)
    """Maximum duration of a fetch in seconds, with its redirects and its waiting for other
    fetches."""

    silent_s: float = Field(default=5.0, gt=0)
    """Maximum wait for the next byte of a fetch, or for the lookup of its host name. A chat's
    messages wait until a picture is fetched, so the bot gives up on a silent server long before
    ``fetch_s``."""

    max_redirects: int = Field(default=3, ge=0, le=10)
    """Maximum number of redirects of one fetch. Platforms' file servers redirect once; a longer
    chain is suspicious."""

    chat_quota_bytes: int = Field(default=1024 * 1024 * 1024, gt=0)
    """Maximum number of bytes stored for one chat. If a chat has more, its oldest media are
    deleted, so a flood in one chat deletes no media of other chats."""

    keep_days: float = Field(default=180.0, ge=0)
    """A medium is deleted this many days after it was last received or sent; 0 keeps all."""

    total_bytes: int = Field(default=20 * 1024 * 1024 * 1024, gt=0)
    """Maximum number of bytes stored for all chats together. If they have more, the oldest media
    are deleted.
    """

    private_hosts: frozenset[str] = Field(default=frozenset(), json_schema_extra=AFTER_RESTART)
    """Hosts with their ports (``127.0.0.1:3001``, ``[::1]:3001``) from which received media may be
    fetched although the host's address is not public. Such a host runs a platform's program, on
    this machine or in its network. All other non-public hosts are refused, since a chat member may
    have chosen the URL. The bot's own ports are always refused, and the model's code gets no access
    through this setting."""

    @field_validator("private_hosts")
    @classmethod
    def _hosts_and_ports(cls, value: frozenset[str]) -> frozenset[str]:
        for entry in value:
            PrivateHost.parse(entry)
        return value
