"""Defines how the peer records frames and calls, so that tests can check them."""

from dataclasses import dataclass
from typing import Any

from tests.peers.onebot_v11.messages import Json, segments_of

SENDS = (
    "send_msg",
    "send_group_msg",
    "send_private_msg",
    "send_group_forward_msg",
    "send_private_forward_msg",
    "upload_group_file",
    "upload_private_file",
)


@dataclass(frozen=True, slots=True)
class WireFrame:
    """One frame of the log. ``outbound`` means that the peer sent it to the application."""

    at: float
    outbound: bool
    frame: Json


@dataclass(frozen=True, slots=True)
class Call:
    """A call from the application, and the result that the peer gave."""

    action: str
    params: Json
    echo: Any
    at: float
    data: Any = None

    @property
    def segments(self) -> list[Json]:
        return segments_of(self.params["message"])

    @property
    def types(self) -> list[str]:
        return [segment["type"] for segment in self.segments]

    @property
    def text(self) -> str:
        return "".join(s["data"]["text"] for s in self.segments if s["type"] == "text")
