"""Wraps NoneBot's Satori adapter so that a connection continues after the last stored event.

Differences from nonebot-adapter-satori 1.3.0 (each has a regression test):

- When events are stored, the sequence number of the last one is written to a file, so a restart
  does not lose the number. The number is sent to the server under both names that servers use.
- A connection is closed if the server sends nothing.
- After a refused connection, the adapter waits before the next try.
- HTTP clients of disconnected accounts are closed.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import anyio
import anyio.to_thread
from loguru import logger
from nonebot.adapters.satori import Adapter as StockAdapter
from nonebot.adapters.satori.config import ClientInfo
from nonebot.adapters.satori.models import IdentifyPayload, Payload
from nonebot.drivers import Driver, HTTPClientSession, WebSocket
from nonebot.exception import WebSocketClosed

from nekro_core.api.adapter import write_whole

from ..backpressure import PacedSocket

SILENT_S = 30.0
"""Seconds without any frame after which a connection counts as lost. NoneBot's adapter sends a ping
every 9 s."""
REFUSED_S = 3.0
TIDY_S = 60.0
END_S = 1.0
MARK_S = 0.5
"""Seconds between two checks whether the sequence number must be written."""


class SequenceFile:
    """Stores the sequence number of the last stored event, in one small file for each server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, identity: str) -> int | None:
        """Return the stored number; None if none is stored or the file is invalid."""
        try:
            number = json.loads(self._path(identity).read_text())["sn"]
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return number if isinstance(number, int) else None

    def write(self, identity: str, number: int) -> None:
        """Store the number. Raises `OSError`."""
        write_whole(self._path(identity), json.dumps({"sn": number}).encode())

    def _path(self, identity: str) -> Path:
        # The identity is hashed, because it contains the server's token.
        return self._folder / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.json"


class _Counted(Protocol):
    """The method that `adapters.uniseg.managed_adapter.manage` adds to a bot."""

    async def settled(self) -> bool:
        """See `EventListener.settled`."""


class ResumingAdapter(StockAdapter):
    """NoneBot's Satori adapter with the differences that the module lists. A subclass sets
    ``marks``."""

    marks: SequenceFile
    silent_s: float = SILENT_S

    def __init__(self, driver: Driver, **options: Any) -> None:
        self._sessions: dict[str, dict[HTTPClientSession, bool]] = {}
        """The open HTTP clients of each server. The value of a client is True if its account has
        disconnected."""
        super().__init__(driver, **options)

    async def startup(self) -> None:
        """Connect to every server, and resume after the last stored event."""
        for client in self.satori_config.satori_clients:
            mark = await anyio.to_thread.run_sync(self.marks.read, client.identity)
            if mark is not None:
                self.sequences[client.identity] = mark
        await super().startup()

    async def ws(self, info: ClientInfo) -> None:
        """Run a connection, and meanwhile store the sequence number of its last event."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._keep_count, info)
                tasks.start_soon(self._tidy, info)
                await super().ws(info)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.move_on_after(END_S, shield=True):
                for session in self._sessions.pop(info.identity, {}):
                    await session.close()

    async def _tidy(self, info: ClientInfo) -> None:
        """Close the HTTP clients of disconnected accounts, which NoneBot's adapter leaves open. A
        client is closed one interval after it was first found unused, so that its calls can end."""
        while True:
            await anyio.sleep(TIDY_S)
            sessions = self._sessions.setdefault(info.identity, {})
            bots = [self.bots.get(name) for name in self._bots[info.identity]]
            used = {bot.sess for bot in bots if bot}
            for session, gone in [*sessions.items()]:
                if gone:
                    await session.close()
                    del sessions[session]
                else:
                    sessions[session] = session not in used

    async def _keep_count(self, info: ClientInfo) -> None:
        """Write the sequence number of the last event when all events up to it are stored. If one
        of them cannot be stored, this connection writes no further number, so that the next start
        requests the event again."""
        written = self.sequences.get(info.identity)
        while True:
            await anyio.sleep(MARK_S)
            number = self.sequences.get(info.identity)
            if number is None or number == written:
                continue
            bots = [self.bots.get(name) for name in self._bots[info.identity]]
            if not all([await cast(_Counted, bot).settled() for bot in bots if bot]):
                logger.error("Satori: an event is not stored; the next start requests it again")
                return
            try:
                await anyio.to_thread.run_sync(self.marks.write, info.identity, number)
            except OSError as error:
                logger.error("Satori: the last event's number cannot be written: {}", error)
            written = number

    @staticmethod
    def payload_to_json(payload: Payload) -> str:
        """Write ``sn`` a second time as ``sequence``, which is its name in older servers such as
        satori-python-server."""
        text = StockAdapter.payload_to_json(payload)
        if isinstance(payload, IdentifyPayload) and payload.body.sn is not None:
            frame: dict[str, Any] = json.loads(text)
            frame["body"]["sequence"] = frame["body"]["sn"]
            return json.dumps(frame)
        return text

    async def receive_payload(self, info: ClientInfo, ws: WebSocket) -> Payload:
        """Read a frame. Raises `WebSocketClosed` if the server sends nothing, not even a pong."""
        if isinstance(ws, PacedSocket):
            await ws.wait_for_room()  # this wait must not count towards `silent_s`
        with anyio.move_on_after(self.silent_s):
            return await super().receive_payload(info, ws)
        raise WebSocketClosed(1006, f"silent for {self.silent_s:g} s")

    async def _authenticate(self, info: ClientInfo, ws: WebSocket) -> Literal[True] | None:
        try:
            done = await super()._authenticate(info, ws)
        except Exception:
            logger.error(
                "Satori: {}:{} closes the connection during the login; check that the token in "
                "SATORI_CLIENTS is the server's token",
                info.host,
                info.port,
            )
            await anyio.sleep(REFUSED_S)
            raise
        bots = [self.bots.get(name) for name in self._bots[info.identity]]
        sessions = self._sessions.setdefault(info.identity, {})
        sessions |= dict.fromkeys((bot.sess for bot in bots if bot), False)
        return done
