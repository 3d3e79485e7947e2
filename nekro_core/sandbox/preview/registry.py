"""Maps unguessable names to ports of boxes."""

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
    """The state of the box behind a preview."""

    RUNNING = "running"
    SLEEPING = "sleeping"
    """The box's files are stored and nothing runs. A preview never wakes the box."""
    GONE = "gone"
    """The box was destroyed. Its previews stay closed for ever."""


class PreviewTarget(Protocol):
    """A box that stays the same object while it sleeps and wakes. Hashed by identity."""

    @property
    def preview_state(self) -> PreviewTargetState:
        """The state now. Reading it does not count as use of the box."""

    async def connect(self, port: int) -> ByteStream:
        """Connect to the server at 127.0.0.1:``port`` in the box. Never wakes the box.

        Raises `ConnectionRefusedError` if nothing listens, and `BoxLost` if the box is asleep or
        destroyed.
        """


MOST_PORTS = 32
"""Ports of one box that may be shown. No chat needs more servers, and a loop over all ports must
not fill the bot's memory."""

_TOKEN_BYTES = 20
"""160 random bits, or 32 characters without padding: one label of a host name."""


class PreviewRefused(SandboxError):
    """The port cannot be shown; the message says why."""


@dataclass(frozen=True, slots=True)
class OpenPreview:
    """One preview."""

    token: str
    target: PreviewTarget
    port: int


class PreviewRegistry:
    """Opens previews and finds them. They are not stored: all end with the process.

    ``port`` is the web server's port, for the addresses. A box and a port have the same preview
    each time, also after sleep. A preview ends at once with its box, whose state is checked at
    every request.
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
        """Return the address at which a browser reaches this port of this box.

        Raises `PreviewRefused` for an invalid port, a port that must not be shown, too many ports
        of one box, and a destroyed box.
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
        """Forget a box's previews. Their names are unknown from now on."""
        for opened in self._by_target.pop(target, {}).values():
            del self._by_token[opened.token]

    def is_name(self, host: str) -> bool:
        """Whether a host name (lower case, no port) is in the domain of previews, open or not."""
        domain = self.settings.domain
        return host == domain or host.endswith("." + domain)

    def find(self, host: str) -> OpenPreview | None:
        """Return the preview of a host name (lower case, no port), or None."""
        token, _, domain = host.partition(".")
        opened = self._by_token.get(token) if domain == self.settings.domain else None
        if opened is not None and opened.target.preview_state is PreviewTargetState.GONE:
            self.close(opened.target)
            return None
        return opened

    def authority(self, opened: OpenPreview) -> str:
        """Return name and port as the browser's address bar shows them."""
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
