"""NoneBot's Satori adapter, whose connection is resumed where it ended.

What differs from nonebot-adapter-satori 1.3.0 (each difference has its regression test): the
number of the last event is kept over a restart of the bot, once the event is stored; it is sent
under both names that servers look for; a server that falls silent without closing is left; one that
refuses is asked again after a pause, not at once; HTTP clients are closed.
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
"""The stock adapter asks for a sign of life every 9 s."""
REFUSED_S = 3.0
TIDY_S = 60.0
END_S = 1.0
MARK_S = 0.5
"""How often the number of the last event is written down."""


class SequenceFile:
    """The number of the last event that was stored, for each server. One small file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, identity: str) -> int | None:
        """Nothing where there is none, or none that can be read."""
        try:
            number = json.loads(self._path(identity).read_text())["sn"]
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return number if isinstance(number, int) else None

    def write(self, identity: str, number: int) -> None:
        """Raises `OSError`."""
        write_whole(self._path(identity), json.dumps({"sn": number}).encode())

    def _path(self, identity: str) -> Path:
        # The identity has the server's token in it.
        return self._folder / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.json"


class _Counted(Protocol):
    """What `hold` adds to a bot."""

    async def settled(self) -> bool:
        """See `EventListener.settled`."""


class ResumingAdapter(StockAdapter):
    """See the module. ``marks`` are set by who makes the class."""

    marks: SequenceFile
    silent_s: float = SILENT_S

    def __init__(self, driver: Driver, **options: Any) -> None:
        self._sessions: dict[str, dict[HTTPClientSession, bool]] = {}
        """For each server the HTTP clients that are open, and whether their account is gone."""
        super().__init__(driver, **options)

    async def startup(self) -> None:
        """Connect to every server, from where we were."""
        for client in self.satori_config.satori_clients:
            mark = await anyio.to_thread.run_sync(self.marks.read, client.identity)
            if mark is not None:
                self.sequences[client.identity] = mark
        await super().startup()

    async def ws(self, info: ClientInfo) -> None:
        """Keep a connection, and keep count of what it brought."""
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
        """Close the HTTP clients of accounts that are gone; the stock adapter leaves them open. A
        call that is on its way has time to end."""
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
        """Write down the number of the last event, once everything up to it is stored."""
        written = self.sequences.get(info.identity)
        while True:
            await anyio.sleep(MARK_S)
            number = self.sequences.get(info.identity)
            if number is None or number == written:
                continue
            bots = [self.bots.get(name) for name in self._bots[info.identity]]
            if not all([await cast(_Counted, bot).settled() for bot in bots if bot]):
                logger.error("Satori: what is not stored is asked for again at the next start")
                return
            try:
                await anyio.to_thread.run_sync(self.marks.write, info.identity, number)
            except OSError as error:
                logger.error("Satori: the last event's number cannot be written: {}", error)
            written = number

    @staticmethod
    def payload_to_json(payload: Payload) -> str:
        """``sn`` is called ``sequence`` by older servers, satori-python-server among them."""
        text = StockAdapter.payload_to_json(payload)
        if isinstance(payload, IdentifyPayload) and payload.body.sn is not None:
            frame: dict[str, Any] = json.loads(text)
            frame["body"]["sequence"] = frame["body"]["sn"]
            return json.dumps(frame)
        return text

    async def receive_payload(self, info: ClientInfo, ws: WebSocket) -> Payload:
        """Raises `WebSocketClosed` for a server that says nothing, not even pong."""
        if isinstance(ws, PacedSocket):
            await ws.wait_for_room()  # while we do not read, the silence is ours
        with anyio.move_on_after(self.silent_s):
            return await super().receive_payload(info, ws)
        raise WebSocketClosed(1006, f"silent for {self.silent_s:g} s")

    async def _authenticate(self, info: ClientInfo, ws: WebSocket) -> Literal[True] | None:
        try:
            done = await super()._authenticate(info, ws)
        except Exception:
            logger.error(
                "Satori: {}:{} hangs up before it says who we are; is the token in SATORI_CLIENTS "
                "the server's?",
                info.host,
                info.port,
            )
            await anyio.sleep(REFUSED_S)
            raise
        bots = [self.bots.get(name) for name in self._bots[info.identity]]
        sessions = self._sessions.setdefault(info.identity, {})
        sessions |= dict.fromkeys((bot.sess for bot in bots if bot), False)
        return done
