"""One visit of a preview: a browser on one side, a server in a box on the other."""

from dataclasses import dataclass

from anyio.abc import ByteStream
from starlette.types import Scope, Send

from nekro_core.sandbox.preview.body import RequestBody
from nekro_core.sandbox.preview.settings import PreviewSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewRequest:
    """What a request or a WebSocket is carried between, and within which bounds."""

    scope: Scope
    body: RequestBody
    send: Send
    stream: ByteStream
    """To the box; whoever connected closes it."""
    port: int
    """The server's, as the box numbers it."""
    settings: PreviewSettings

    @property
    def path(self) -> bytes:
        """As the browser spelt it."""
        path: bytes = self.scope.get("raw_path") or b"/"
        return path
