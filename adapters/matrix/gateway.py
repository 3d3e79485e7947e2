"""Wraps NoneBot's Matrix adapter, which logs in and renews tokens. NoneBot's plugins see the events
and call the API through this adapter.

Differences from nonebot-adapter-matrix 0.2.3 (each has a regression test):

- It does not read events; `MatrixAccount` does. The loop of nonebot-adapter-matrix has its position
  in memory only. If processing one event of an answer fails, that loop loses all events of the
  answer. It also drops events that are older than its start.
- Media are downloaded from the endpoint that today's servers offer.
- The status 403 does not count as a logout.
"""

from functools import partial
from typing import Any

import httpx
from loguru import logger
from nonebot.adapters.matrix import Adapter as StockAdapter
from nonebot.adapters.matrix.api import RawMatrixEvent, WhoamiResponse
from nonebot.adapters.matrix.bot import Bot
from nonebot.adapters.matrix.config import BotInfo, Config
from nonebot.adapters.matrix.event import Event, event_from_raw
from nonebot.adapters.matrix.exception import ActionFailed, NetworkError
from nonebot.drivers import Driver, Request, Response
from nonebot.exception import NetworkError as BaseNetworkError
from pydantic import ValidationError

from nekro_core.api.adapter import MatcherDecision, dispatch_event

from .homeserver import (
    CALL_S,
    Homeserver,
    HomeserverError,
    HomeserverNotConnected,
    HomeserverRefused,
    Json,
    LoggedOut,
)


class MatrixGateway(StockAdapter):
    """NoneBot's adapter without its loop that reads events. One object serves all accounts."""

    def __init__(self, driver: Driver, config: Config) -> None:
        # The constructor of the base class is not called: it reads the process-wide configuration,
        # and makes the adapter start together with NoneBot.
        super(StockAdapter, self).__init__(driver)
        self.matrix_config = config
        self.tasks = set()
        self._token_lifetimes_ms = {}
        self._servers: dict[str, Homeserver] = {}

    async def log_in(self, info: BotInfo, server: Homeserver) -> Bot:
        """Check the access token, or log in, and return the account's NoneBot bot. Raises
        `HomeserverError`."""
        self._load_persisted_tokens(info)
        account = await self._renewed(info) if not info.access_token else None
        try:
            account = account or await _who_is_it(server)
        except LoggedOut:
            if not (info.refresh_token or info.login_password or info.oauth_enabled):
                raise
            account = await self._renewed(info)
        return Bot(self, str(account.user_id), info, account)

    async def _renewed(self, info: BotInfo) -> WhoamiResponse:
        try:
            return await self._bootstrap_bot(info)
        except (ActionFailed, RuntimeError) as error:
            raise LoggedOut(f"cannot log in: {error}") from error
        except (BaseNetworkError, httpx.HTTPError, OSError) as error:
            raise HomeserverNotConnected(f"cannot log in: {error!r}") from error

    def connect(self, bot: Bot, server: Homeserver) -> None:
        """Let NoneBot's plugins see the account."""
        self._servers[bot.self_id] = server
        try:
            self.bot_connect(bot)
        except RuntimeError as error:  # raised if another adapter's bot has the same id
            logger.warning("NoneBot's plugins will not see account {}: {}", bot.self_id, error)

    def disconnect(self, bot: Bot) -> None:
        """Report to NoneBot's plugins that the account is disconnected."""
        self._servers.pop(bot.self_id, None)
        if self.bots.get(bot.self_id) is bot:
            self.bot_disconnect(bot)

    async def offer(self, bot: Bot, raw: Json, room_id: str, decision: MatcherDecision) -> None:
        """Let NoneBot's matchers see an event of a room. They do not see events that are older than
        the connection. Unless NoneBot's settings say otherwise, they do not see the bot's own
        events either, because matchers that answer these would never stop."""
        event = self._parsed(bot, raw, room_id)
        if event is None:
            decision.make(blocked=False)
        else:
            await dispatch_event(decision, partial(bot.handle_event, event))

    def _parsed(self, bot: Bot, raw: Json, room_id: str) -> Event | None:
        if raw.get("sender") == bot.self_id and not self.matrix_config.matrix_handle_self_message:
            return None
        try:
            parsed = RawMatrixEvent.model_validate(raw)
            if self._is_old_event(bot, parsed):
                return None
            to_me = self._is_to_me(bot, parsed, room_id=room_id)
            return event_from_raw(parsed, room_id=room_id, to_me=to_me)
        except (ValidationError, ValueError) as error:
            logger.debug("NoneBot's models do not accept an event: {}", error)
            return None

    async def request(self, setup: Request) -> Response:
        """Make an HTTP call for nonebot-adapter-matrix, without the proxies of the environment.

        The driver's client is not used: the driver makes a new client for each call, and the client
        warns about its cookies.
        """
        proxy = self.matrix_config.matrix_proxy
        async with httpx.AsyncClient(proxy=proxy, trust_env=False, timeout=CALL_S) as client:
            answer = await client.request(
                setup.method,
                str(setup.url),
                content=setup.content,
                json=setup.json,
                headers=list(setup.headers.items()),
            )
        return Response(
            answer.status_code, headers=answer.headers.multi_items(), content=answer.content
        )

    async def _api_download_media(
        self, bot: Bot, *, server_name: str, media_id: str, **_: Any
    ) -> bytes:
        """Download a medium for NoneBot's plugins."""
        server = self._servers.get(bot.self_id)
        if server is None:
            raise NetworkError("the account is offline")
        try:
            return await server.download(server_name, media_id)
        except HomeserverError as error:
            raise NetworkError(str(error)) from error


async def _who_is_it(server: Homeserver) -> WhoamiResponse:
    try:
        answer = await server.get("client/v3/account/whoami")
        return WhoamiResponse.model_validate(answer)
    except (HomeserverRefused, ValidationError) as error:
        raise HomeserverNotConnected(
            f"no Matrix homeserver answers at this address ({error}). The part of a user id behind "
            "the colon is its name; its address is in https://NAME/.well-known/matrix/client"
        ) from None
