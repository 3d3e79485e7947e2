"""Makes signed, short-lived links to media that are too large to send, and serves the files."""

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import FileResponse, PlainTextResponse, Response

from nekro_core.chat import ChatKey, Media
from nekro_core.chat.catalogue import Catalogue, preferred
from nekro_core.system.asgi import Receive, Scope, Send

MOUNTED = "/media"
"""The path prefix of the links on the web server."""
_TOKEN = re.compile(r"/(?P<body>[A-Za-z0-9_-]{1,600})\.(?P<mark>[A-Za-z0-9_-]{43})(?:/[^/]*)?\Z")
_FILE = re.compile(r"[0-9a-z%._~-]{1,121}/[0-9a-f]{32}\.[a-z0-9]{1,5}\Z")


class MediaLinks:
    """Makes links to stored media and serves the files (a `WebApplication`, mounted at ``/media``).

    Anyone with a link can get the file, for ``seconds`` and while the file is stored. So a link is
    sent only to the chat that the file was meant for. ``secret`` is called each time a link is made
    or checked. ``address`` is the public address of the bot's web server, empty if there is none.
    ``clock`` returns seconds since 1970. ``bring`` copies a medium to this machine, if another
    process has stored it.
    """

    def __init__(
        self,
        data_dir: Path,
        secret: Callable[[], str],
        *,
        address: str = "",
        seconds: float = 3600.0,
        clock: Callable[[], float] = time.time,
        bring: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._folder = data_dir.absolute() / "uploads"
        self._secret = secret
        self._address = address.rstrip("/")
        self._seconds = seconds
        self._clock = clock
        self._bring = bring
        self._catalogue: Catalogue | None = None

    def link(self, chat_key: ChatKey, media: Media, *, address: str = "") -> str:
        """Make a link to a medium of the chat. The link begins with ``address`` or, if that is
        empty, with the operator's address. Returns empty text if both are empty, or if the bot has
        not stored the medium."""
        base = address.rstrip("/") or self._address
        name = media.path.rpartition("/")[2]
        file = f"{chat_key.file_name}/{name}"
        if not base or str(self._folder / file) != media.path or not _FILE.match(file):
            return ""
        fields = {"file": file, "until": int(self._clock() + self._seconds)}
        body = _text_of(json.dumps(fields, separators=(",", ":")).encode())
        shown = quote(media.name or name, safe="")
        return f"{base}{MOUNTED}/{body}.{self._mark(body)}/{shown}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        answer = await self._answer(scope)
        await answer(scope, receive, send)

    async def _answer(self, scope: Scope) -> Response:
        if scope["method"] not in ("GET", "HEAD"):
            return Response(status_code=405, headers={"Allow": "GET, HEAD"})
        path = self._file(str(scope["path"]).removeprefix(str(scope.get("root_path", ""))))
        if path is not None and self._bring is not None:
            await self._bring(str(path))
        if path is None or not path.is_file():
            return self._gone(scope)
        return FileResponse(
            path,
            media_type="application/octet-stream",
            filename=path.name,
            headers={
                # A stranger or the model made the content, so browsers must save the file and never
                # show it.
                "Content-Security-Policy": "sandbox; default-src 'none'",
                "X-Content-Type-Options": "nosniff",
                "Cache-Control": "private, no-store",
                "Referrer-Policy": "no-referrer",
            },
        )

    def _gone(self, scope: Scope) -> Response:
        if self._catalogue is None:
            self._catalogue = Catalogue.load()
        language = preferred(Headers(scope=scope).get("accept-language", ""))
        return PlainTextResponse(f"{self._catalogue.say('media.link_gone', language)}\n", 404)

    def _file(self, path: str) -> Path | None:
        """Return the file of a link that has our signature and has not expired; None for any other
        path."""
        found = _TOKEN.match(path)
        if found is None or not hmac.compare_digest(self._mark(found["body"]), found["mark"]):
            return None
        try:
            fields = json.loads(base64.urlsafe_b64decode(found["body"] + "=="))
        except (binascii.Error, ValueError):
            return None
        file = str(fields["file"])
        if fields["until"] < self._clock() or not _FILE.match(file):
            return None
        return self._folder / file

    def _mark(self, body: str) -> str:
        made = hmac.new(self._secret().encode(), body.encode(), hashlib.sha256)
        return _text_of(made.digest())


def _text_of(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
