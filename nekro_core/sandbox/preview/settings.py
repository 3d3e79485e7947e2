"""Settings of previews: ``NEKRO_PREVIEW__...``."""

import ipaddress
import re
from typing import Literal

from pydantic import Field, field_validator

from nekro_core.system.live_settings import LiveSettings

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class PreviewSettings(LiveSettings):
    """The addresses of previews, and their limits."""

    domain: str = "preview.localhost"
    """The address of each preview is ``http://<unguessable>.<domain>``. The DNS must resolve all
    subdomains to the bot. Do not use the registered domain of the bot's page, because browsers
    share cookies inside a registered domain.
    """

    scheme: Literal["http", "https"] = "http"
    """The scheme that the browser uses: ``https`` if a reverse proxy in front of the bot adds
    TLS."""

    port: int | None = Field(default=None, ge=1, le=65535)
    """The port to which the browser connects; unset: the port of the bot's web server."""

    connections: int = Field(default=256, ge=1)
    """Limit of open connections to all previews together. This is half of the web server's limit,
    so the other half remains for the bot's page."""

    connections_per_box: int = Field(default=64, ge=1)
    """Limit of open connections to all previews of one box together."""

    connections_per_name: int = Field(default=32, ge=1)
    """Limit of open connections to one preview. A browser opens six, and one more for the WebSocket
    of a development server."""

    body_mb: int = Field(default=256, ge=1)
    """Limit in MiB of the body of one request."""

    message_mb: int = Field(default=16, ge=1)
    """Limit in MiB of one WebSocket message from a box. For messages to the box, the web server has
    a limit of 16 MiB."""

    connect_s: float = Field(default=5.0, gt=0)
    """Longest wait in seconds for a connection to the server in the box."""

    answer_s: float = Field(default=60.0, gt=0)
    """Longest time in seconds from the end of the request to the head of the answer."""

    upload_s: float = Field(default=30.0, gt=0)
    """Longest wait in seconds for the next piece of a request's body."""

    idle_s: float = Field(default=600.0, gt=0)
    """Longest wait in seconds for the next byte of an answer. Event streams often send no byte for
    minutes."""

    @field_validator("domain")
    @classmethod
    def _a_domain(cls, value: str) -> str:
        name = value.lower().strip(".").removeprefix("*.")
        labels = name.split(".")
        if len(labels) < 2 or not all(_LABEL.fullmatch(label) for label in labels) or _is_ip(name):
            raise ValueError(
                "expected a domain with at least one dot, such as preview.example.org, whose "
                "subdomains all resolve to the bot"
            )
        return name


def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
