"""Settings of previews: ``NEKRO_PREVIEW__...``."""

import ipaddress
import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class PreviewSettings(BaseModel):
    """The addresses of previews, and their limits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    domain: str = "preview.localhost"
    """Each preview is ``http://<unguessable>.<domain>``. All subdomains must lead to the bot. Use
    another registered domain than that of the bot's page: browsers share cookies inside one.
    """

    scheme: Literal["http", "https"] = "http"
    """What the browser uses: ``https`` if a proxy in front of the bot does."""

    port: int | None = Field(default=None, ge=1, le=65535)
    """The port that the browser connects to; by default the bot's own port."""

    connections: int = Field(default=256, ge=1)
    """Open at the same time, to all previews. Half of what the web server takes, so that the other
    half stays free for the bot's page."""

    connections_per_box: int = Field(default=64, ge=1)
    """Open at the same time, to all previews of one box."""

    connections_per_name: int = Field(default=32, ge=1)
    """Open at the same time, to one preview. A browser opens six; a development server adds a
    WebSocket."""

    body_mb: int = Field(default=256, ge=1)
    """MiB of one request's body. The box's disk is smaller."""

    message_mb: int = Field(default=16, ge=1)
    """MiB of one WebSocket message from a box. For messages to the box the web server's limit
    holds: 16."""

    connect_s: float = Field(default=5.0, gt=0)
    """Seconds until a server in a box accepts the connection."""

    answer_s: float = Field(default=60.0, gt=0)
    """Seconds from the end of the request to the head of the answer."""

    upload_s: float = Field(default=30.0, gt=0)
    """Seconds between two pieces of a request's body."""

    idle_s: float = Field(default=600.0, gt=0)
    """Seconds without a byte of the answer. Event streams are often silent for minutes."""

    @field_validator("domain")
    @classmethod
    def _a_domain(cls, value: str) -> str:
        name = value.lower().strip(".").removeprefix("*.")
        labels = name.split(".")
        if len(labels) < 2 or not all(_LABEL.fullmatch(label) for label in labels) or _is_ip(name):
            raise ValueError(
                "expected a domain of two parts or more whose every subdomain leads to the bot, "
                "such as preview.example.org"
            )
        return name


def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
