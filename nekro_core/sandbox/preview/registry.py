"""Opens previews. Each preview is an unguessable host name that stands for a port of a box."""

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
    """The box's files are stored and no process runs. A preview never wakes the box."""
    GONE = "gone"
    """The box was destroyed. Its previews are closed and do not open again."""


class PreviewTarget(Protocol):
    """A box. The object must stay the same while the box sleeps and wakes, and must be hashed by
    identity."""

    @property
    def preview_state(self) -> PreviewTargetState:
        """The present state of the box. Reading it does not count as a use of the box."""

    async def connect(self, port: int) -> ByteStream:
        """Connect to the server at 127.0.0.1:``port`` in the box. Never wakes the box.

        Raises `ConnectionRefusedError` if nothing listens, and `BoxLost` if the box is asleep or
        destroyed.
        """


MOST_PORTS = 32
"""Maximum number of previews of one box. No chat needs more servers. Without a limit, a loop over
all ports could fill the bot's memory."""

_TOKEN_BYTES = 20
"""Number of bytes of the random part of a host name. They are 160 bits, or 32 characters of
base32."""


class PreviewRefused(SandboxError):
    """The port cannot get a preview. The message says why."""


@dataclass(frozen=True, slots=True)
class OpenPreview:
    """One preview: the first label of its host name, its box, and the port in the box."""

    token: str
    target: PreviewTarget
    port: int


class PreviewRegistry:
    """Opens previews and finds them. Previews are not stored: all end with the process.

    ``port`` is the web server's port. It is a part of the addresses, unless the settings name
    another port. Ports of a box in ``refused_ports`` get no preview. Each call of `open` for the
    same box and the same port returns the same preview, even if the box has slept meanwhile. The
    state of the box is checked at each request, so a preview ends as soon as its box is destroyed.
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
        """Open a preview of this port of this box, and return its address for a browser.

        Raises `PreviewRefused` if the port is invalid or must not be shown, if the box has too many
        previews, or if the box was destroyed.
        """
        if not 1 <= port <= 65535:
            raise PreviewRefused(f"{port} is no port; expected a number from 1 to 65535")
        if port in self._refused:
            raise PreviewRefused(f"port {port} is the box's egress proxy and cannot be shown")
        if target.preview_state is PreviewTargetState.GONE:
            raise PreviewRefused("this box is gone: it was destroyed")
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
        """Close all previews of a box. Their host names are then unknown."""
        for opened in self._by_target.pop(target, {}).values():
            del self._by_token[opened.token]

    def is_name(self, host: str) -> bool:
        """Return True if a host name (lower case, no port) is in the domain of previews. A preview
        of this name need not exist."""
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
        """Return host name and port, without the scheme's default port."""
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
