"""Transfers a file to the OneBot implementation: inside the call that sends the message, in pieces
before this call, or as a link.

A large file is sent in numbered pieces with NapCat's action ``upload_file_stream`` (NapCatQQ,
``packages/napcat-onebot/action/stream/UploadFileStream.ts``). The last call has ``is_complete``,
and its answer has the file's path on the implementation's machine. An implementation without this
action gets a link to the bot's web server, and must be able to reach this server.
"""

import base64
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from loguru import logger

from nekro_core.api.adapter import Host
from nekro_core.api.chat import ChatKey, Media

from .connection import CallRefused, NotConnected, OutcomeUnknown
from .gateway import OneBotGateway
from .outgoing import INLINE_BYTES, UnsendableMessage, inline

PIECE_BYTES = 1024 * 1024
"""Bytes of one piece. Pieces are small, so that heartbeats and messages are sent between them."""
PIECE_S = 30.0
KEEP_MS = 10 * 60 * 1000
"""Milliseconds for which the implementation stores the file. This is enough, because the message
with the file is sent right after the upload, and only once."""


class FileTransfer:
    """Transfers the files of one delivery. `outgoing.call_for` calls this object for each file; see
    `outgoing.PlaceFile`."""

    def __init__(self, gateway: OneBotGateway, host: Host, account: str, chat_key: ChatKey) -> None:
        self._gateway = gateway
        self._host = host
        self._account = account
        self._chat_key = chat_key

    async def __call__(self, media: Media) -> str:
        """Transfer a file and return the ``file`` parameter for the call.

        Raises `UnsendableMessage` if the file cannot be transferred. Raises `NotConnected` if the
        connection is lost. In this case the message was not sent, so the delivery may be tried
        again.
        """
        try:
            size = (await anyio.Path(media.path).stat()).st_size
        except OSError:
            return await inline(media)  # `inline` raises an error that names the fault
        if size <= INLINE_BYTES:
            return await inline(media)
        try:
            return await self._in_pieces(media, size)
        except CallRefused as error:
            logger.info("{}: a file cannot be sent in pieces: {}", self._chat_key, error)
        connection = self._gateway.connection_of(self._account)
        reached = connection.reached_at if connection else ""
        link = self._host.links.link(self._chat_key, media, address=reached)
        if not link:
            raise UnsendableMessage(
                f"{media.name or 'the file'} has {size} bytes: at most {INLINE_BYTES} go inside a "
                "call, and this OneBot implementation takes no files in pieces. To send links, set "
                "NEKRO_DELIVERY__MEDIA__LINK_ADDRESS to this bot's address as it can reach it"
            )
        return link

    async def _in_pieces(self, media: Media, size: int) -> str:
        pieces = -(-size // PIECE_BYTES)
        stream: dict[str, Any] = {
            "stream_id": uuid.uuid4().hex,
            "total_chunks": pieces,
            "file_size": size,
            # The implementation stores the file under this name, so a name that a chat member chose
            # is not used.
            "filename": f"{uuid.uuid4().hex}{Path(media.path).suffix}",
            "file_retention": KEEP_MS,
        }
        if media.sha256:
            stream["expected_sha256"] = media.sha256
        try:
            with await to_thread.run_sync(Path(media.path).open, "rb") as file:
                for number in range(pieces):
                    piece = await to_thread.run_sync(file.read, PIECE_BYTES)
                    encoded = base64.b64encode(piece).decode()
                    await self._ask({**stream, "chunk_index": number, "chunk_data": encoded})
        except OSError as error:
            raise UnsendableMessage(f"{media.name} cannot be read: {error.strerror}") from None
        done = await self._ask({**stream, "is_complete": True})
        path = done.get("file_path") if isinstance(done, Mapping) else None
        if not isinstance(path, str) or not path:
            raise UnsendableMessage(
                f"the implementation stored {media.name} and did not return its path"
            )
        return path

    async def _ask(self, params: Mapping[str, Any]) -> Any:
        try:
            return await self._gateway.call(
                self._account, "upload_file_stream", params, seconds=PIECE_S
            )
        except OutcomeUnknown as error:
            if self._gateway.connection_of(self._account) is None:
                raise NotConnected(str(error)) from None
            raise UnsendableMessage(
                f"the implementation did not accept a piece of the file: {error}"
            ) from None
