"""Which unguessable name leads to which port of which box."""

import base64
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from anyio.abc import ByteStream

from nekro_core.sandbox.box import SandboxError
from nekro_core.sandbox.egress.environment import EGRESS_PORT
from nekro_core.sandbox.preview.settings import PreviewSettings


class PreviewTargetState(StrEnum):
    """What a preview finds."""

    RUNNING = "running"
    SLEEPING = "sleeping"
    """Its files are kept, nothing runs. A preview never wakes it."""
    GONE = "gone"
    """Destroyed: its previews are dead, for ever."""


class PreviewTarget(Protocol):
    """A box as its keeper sees it, over sleep and wake. Hashed by identity."""

    @property
    def preview_state(self) -> PreviewTargetState:
        """What it is now. Asking changes nothing, its idle clock included."""

    async def connect(self, port: int) -> ByteStream:
        """A connection to what listens on 127.0.0.1:``port`` inside, never waking the box.

        Raises `ConnectionRefusedError` where nothing listens, and `BoxLost` where the box is asleep
        or gone.
        """


MOST_PORTS = 32
"""Of one box. Nobody runs more servers; a loop over all ports must not fill the bot's memory."""

_TOKEN_BYTES = 20
"""160 random bits, and 32 characters without padding: one label of a name."""


class PreviewRefused(SandboxError):
    """This port cannot be shown; the message says why."""


@dataclass(frozen=True, slots=True)
class OpenPreview:
    """One preview."""

    token: str
    target: PreviewTarget
    port: int


class PreviewRegistry:
    """Opens previews and finds them again. They are all forgotten with the process.

    ``port`` is the web server's, for the addresses. A preview dies with its box, at once: the state
    is asked at every request. It is the same for a box and a port each time, over sleep and wake.
    """

    def __init__(
        self,
        settings: PreviewSettings,
        port: int,
        *,
        refused_ports: Collection[int] = (EGRESS_PORT,),
    ) -> None:
        self.settings = settings
        self._public_port = settings.port or port
        self._refused = frozenset(refused_ports)
        self._by_token: dict[str, OpenPreview] = {}
        self._by_target: dict[PreviewTarget, dict[int, OpenPreview]] = {}

    def open(self, target: PreviewTarget, port: int) -> str:
        """The address under which a browser reaches this port of this box.

        Raises `PreviewRefused` for what is no port, for a port that is not to be shown, for too
        many of one box, and for a box that is gone.
        """
        if not 1 <= port <= 65535:
            raise PreviewRefused(f"{port} is no port; expected a number from 1 to 65535")
        if port in self._refused:
            raise PreviewRefused(f"port {port} is the box's way out and is not shown")
        if target.preview_state is PreviewTargetState.GONE:
            raise PreviewRefused("this box is gone")
        self._forget_gone()
        ports = self._by_target.setdefault(target, {})
        opened = ports.get(port)
        if opened is None:
            if len(ports) >= MOST_PORTS:
                raise PreviewRefused(f"{MOST_PORTS} ports of this box are shown already")
            opened = ports[port] = OpenPreview(_new_token(), target, port)
            self._by_token[opened.token] = opened
        return self._address(opened.token)

    def close(self, target: PreviewTarget) -> None:
        """Forget a box's previews: its names are unknown from now on."""
        for opened in self._by_target.pop(target, {}).values():
            del self._by_token[opened.token]

    def is_name(self, host: str) -> bool:
        """Whether a host's name (lower case, no port) is a preview's, be there one or not."""
        domain = self.settings.domain
        return host == domain or host.endswith("." + domain)

    def find(self, host: str) -> OpenPreview | None:
        """What a host's name (lower case, no port) leads to."""
        token, _, domain = host.partition(".")
        opened = self._by_token.get(token) if domain == self.settings.domain else None
        if opened is not None and opened.target.preview_state is PreviewTargetState.GONE:
            self.close(opened.target)
            return None
        return opened

    def authority(self, opened: OpenPreview) -> str:
        """Name and port as they stand in the browser's address line."""
        default = 443 if self.settings.scheme == "https" else 80
        name = f"{opened.token}.{self.settings.domain}"
        return name if self._public_port == default else f"{name}:{self._public_port}"

    def _forget_gone(self) -> None:
        for target in tuple(self._by_target):
            if target.preview_state is PreviewTargetState.GONE:
                self.close(target)

    def _address(self, token: str) -> str:
        opened = self._by_token[token]
        return f"{self.settings.scheme}://{self.authority(opened)}/"


def _new_token() -> str:
    return base64.b32encode(secrets.token_bytes(_TOKEN_BYTES)).decode().lower()
