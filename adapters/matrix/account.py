"""Runs one account: it logs in, reads events from the stored position on, and reconnects after a
failure."""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import anyio
from anyio.abc import TaskGroup
from loguru import logger
from nonebot.adapters.matrix.bot import Bot
from nonebot.adapters.matrix.config import BotInfo

from nekro_core.api.adapter import (
    AccountMonitor,
    ContactRequest,
    Host,
    MatcherDecision,
    accept_patiently,
    has_matchers,
)

from .checkpoint import SyncCheckpoint
from .follower import Follower
from .gateway import MatrixGateway
from .homeserver import Homeserver, HomeserverError, HomeserverRefused, LoggedOut, RateLimited
from .incoming import Json, table
from .intake import HandOver, MatrixIntake
from .rooms import Rooms

NAME = "matrix"
PAUSES_S = (1.0, 2.0, 5.0, 15.0, 30.0)
"""Seconds to wait before the first, second, ... reconnection in a row. The last value repeats."""
UPLOAD_BYTES = 50 * 1024 * 1024
"""Largest upload, in bytes, if the server names no limit."""


class ResyncNeeded(Exception):
    """Processing an event failed. The events that were not stored must be read again from the
    server."""


class MatrixAccount:
    """One entry of ``MATRIX_BOTS``. ``server`` and ``rooms`` are None while the account is not
    connected."""

    def __init__(
        self,
        host: Host,
        gateway: MatrixGateway,
        info: BotInfo,
        folder: Path,
        *,
        clock: Callable[[], float] = time.time,
        pauses_s: tuple[float, ...] = PAUSES_S,
        hand_over: HandOver = accept_patiently,
    ) -> None:
        self.user_id = info.user_id or ""
        self.expected = ""
        """The only user id that the account may have. If it is empty, any user id is accepted."""
        self.server: Homeserver | None = None
        self.rooms: Rooms | None = None
        self.upload_bytes = UPLOAD_BYTES
        self._host = host
        self._gateway = gateway
        self._info = info
        self._folder = folder
        self._clock = clock
        self._pauses_s = pauses_s
        self._hand_over = hand_over
        self._lost = 0
        self._bot: Bot | None = None
        self._tasks: TaskGroup | None = None
        self._monitor: AccountMonitor | None = None

    async def run(self, monitor: AccountMonitor) -> None:
        """Keep the account connected until cancelled, and report its state to ``monitor``."""
        self._monitor = monitor
        while True:
            pause = self._pauses_s[min(self._lost, len(self._pauses_s) - 1)]
            try:
                async with AsyncExitStack() as stack:
                    await self._session(stack)
            except LoggedOut as error:
                monitor.failed(f"the homeserver refuses the login: {error}")
                logger.error(
                    "Matrix: {} is logged out: {}. Put a new access_token, or login_user and "
                    "login_password, into MATRIX_BOTS",
                    self._shown,
                    error,
                )
            except RateLimited as error:
                pause = max(pause, error.seconds)
                monitor.offline(str(error))
            except (HomeserverError, ResyncNeeded) as error:
                monitor.offline(str(error))
                logger.warning("Matrix: {}: {}; next try in {:g} s", self._shown, error, pause)
            except Exception as error:  # noqa: BLE001 - the store failed, or nonsense came
                monitor.offline(f"an unexpected error: {error!r}")
                logger.exception("Matrix: {} lost its connection", self._shown)
            self._lost += 1
            await anyio.sleep(pause)

    async def _session(self, stack: AsyncExitStack) -> None:
        """Run one connection. Raises `HomeserverError`, `ResyncNeeded`, and the errors of the
        host."""
        proxy = self._gateway.matrix_config.matrix_proxy
        server = await stack.enter_async_context(Homeserver(self._info, proxy=proxy))
        bot = await self._gateway.log_in(self._info, server)
        if self.expected and self.expected != bot.self_id:
            raise LoggedOut(f"the token belongs to {bot.self_id}, not to {self.expected}")
        self.user_id = bot.self_id
        instance = await self._host.instance_of(NAME, self.user_id)
        rooms = Rooms(server, self.user_id)
        await rooms.load()
        self.upload_bytes = await _upload_bytes(server)
        bookmark = SyncCheckpoint(self._folder / f"{_file_name(self._info, self.user_id)}.json")
        bookmark.load()
        intake = MatrixIntake(
            self._host,
            server,
            rooms,
            instance=instance,
            account=self.user_id,
            clock=self._clock,
            hand_over=self._hand_over,
        )
        failure: HomeserverError | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_until_broken, bookmark, tasks)
            with self._there(bot, server, rooms, tasks):
                try:
                    await Follower(self, server, rooms, intake, bookmark, tasks).follow()
                except HomeserverError as error:
                    failure = error
                finally:
                    with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                        await bookmark.keep()
            tasks.cancel_scope.cancel()
        if bookmark.broken.is_set():
            raise ResyncNeeded("an event could not be processed and is read again")
        if failure is not None:
            raise failure

    @contextmanager
    def _there(
        self, bot: Bot, server: Homeserver, rooms: Rooms, tasks: TaskGroup
    ) -> Iterator[None]:
        """Let the adapter and NoneBot use the connection while the context lasts."""
        self._gateway.connect(bot, server)
        self._bot, self._tasks = bot, tasks
        self.server, self.rooms = server, rooms
        try:
            yield
        finally:
            self.server = self.rooms = self._bot = self._tasks = None
            self._gateway.disconnect(bot)

    def connected(self) -> None:
        """See `FollowedAccount.connected`."""
        self._lost = 0
        if self._monitor is not None:
            self._monitor.online(self.user_id)
        logger.info("Matrix: {} is connected", self._shown)
        self._host.online()

    def offer(self, room_id: str, event: Json) -> MatcherDecision | None:
        """See `FollowedAccount.offer`."""
        if self._monitor is not None and event.get("sender") != self.user_id:
            self._monitor.event()
        if not has_matchers() or self._tasks is None or self._bot is None:
            return None
        decision = MatcherDecision()
        self._tasks.start_soon(self._gateway.offer, self._bot, event, room_id, decision)
        return decision

    async def requested(self, request: ContactRequest) -> None:
        """See `FollowedAccount.requested`."""
        try:
            await self._host.receive_request(request)
        except OSError as error:
            logger.error("Matrix: a request cannot be stored: {}", error)

    def accepts_invite(self, inviter: str) -> bool:
        """Return True if the settings of NoneBot's adapter allow this invitation. By default they
        allow no invitation."""
        info = self._info
        allowed = info.auto_accept_whitelist
        return (
            info.auto_accept_invites
            and inviter not in info.auto_accept_blacklist
            and (allowed is None or inviter in allowed)
        )

    @property
    def _shown(self) -> str:
        return self.user_id or self._info.homeserver


async def _until_broken(bookmark: SyncCheckpoint, tasks: TaskGroup) -> None:
    await bookmark.broken.wait()
    tasks.cancel_scope.cancel()


async def _upload_bytes(server: Homeserver) -> int:
    """Ask the server for the size of the largest upload that it accepts."""
    for path in ("client/v1/media/config", "media/v3/config"):
        try:
            limit = table(await server.get(path)).get("m.upload.size")
        except HomeserverRefused:
            continue
        if isinstance(limit, int) and limit > 0:
            return limit
    return UPLOAD_BYTES


def _file_name(info: BotInfo, user_id: str) -> str:
    return hashlib.sha256(f"{info.homeserver}\0{user_id}".encode()).hexdigest()[:32]
