"""Settings of previews: ``NEKRO_PREVIEW__...``."""

import ipaddress
import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class PreviewSettings(BaseModel):
    """Where previews appear, and what bounds them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    domain: str = "preview.localhost"
    """Each preview is ``http://<unguessable>.<domain>``. A wildcard name that leads to the bot,
    best under another registered domain than the bot's own page: browsers share cookies inside one.
    """

    scheme: Literal["http", "https"] = "http"
    """What the browser speaks: ``https`` where a proxy in front of the bot does."""

    port: int | None = Field(default=None, ge=1, le=65535)
    """What the browser connects to; unset: the bot's own port."""

    connections: int = Field(default=256, ge=1)
    """At once, of all previews. Half of what the web server takes: the bot's page keeps room."""

    connections_per_box: int = Field(default=64, ge=1)
    """At once, of all previews of one box."""

    connections_per_name: int = Field(default=32, ge=1)
    """At once, of one preview. A browser opens six; a development server adds a WebSocket."""

    body_mb: int = Field(default=256, ge=1)
    """Of one request's body. The box's disk is smaller."""

    message_mb: int = Field(default=16, ge=1)
    """Of one WebSocket message from a box. To the box the web server's own limit holds: 16."""

    connect_s: float = Field(default=5.0, gt=0)
    """Until a server in a box takes the connection."""

    answer_s: float = Field(default=60.0, gt=0)
    """From the whole request to the head of the answer."""

    upload_s: float = Field(default=30.0, gt=0)
    """Between two pieces of a request's body."""

    idle_s: float = Field(default=600.0, gt=0)
    """Without a byte of the answer. Streams of events often rest for minutes."""

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
