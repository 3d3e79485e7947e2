"""Wraps NoneBot's Telegram adapter so that polling loses no updates.

Differences from nonebot-adapter-telegram 0.1.0b20 (each has a regression test):

- An update is confirmed after it is stored, not when it is read.
- Updates are processed in order.
- If an update cannot be read, the other updates of the same answer are still processed.
- While an account cannot be reached, it counts as disconnected.
- A setting for a webhook is refused, because a webhook confirms updates before they are stored.
"""

from copy import deepcopy
from typing import Any, Protocol, cast

import anyio
import httpx
from loguru import logger
from nonebot.adapters.telegram import Adapter as StockAdapter
from nonebot.adapters.telegram import Bot
from nonebot.adapters.telegram.event import Event
from nonebot.drivers import Driver

from .calls import BotApi, BotApiRefused, Json

POLL_S = 30
"""Seconds that Telegram keeps a request open while there are no updates."""
LATE_S = 15.0
"""Seconds that an answer may take beyond `POLL_S`. After that, the connection counts as lost."""
RETRY_S = (1.0, 2.0, 5.0, 15.0, 30.0)
"""Seconds to wait after the first, second, ... failure in a row. The last value repeats."""
BESIDE_S = 0.3
"""Maximum seconds that the next poll waits until the received updates are stored. After that, the
poll begins even if some updates are not stored yet. So a picture that takes long in one chat does
not delay the messages of other chats. Updates are confirmed when all of them are stored. Until
then, each answer contains them again. An answer has at most a hundred updates."""
EAGER_S = 0.5
"""Minimum seconds between two polls without updates, because some servers answer at once."""


class _Counted(Protocol):
    """The methods of a bot that `adapters.uniseg.managed_adapter.manage` adds or replaces."""

    async def handle_event(self, event: Event) -> None:
        """See `EventListener.on_event`."""

    async def settled(self) -> bool:
        """See `EventListener.settled`."""


class PollingAdapter(StockAdapter):
    """NoneBot's Telegram adapter with the differences that the module lists."""

    def __init__(self, driver: Driver, **options: Any) -> None:
        self.apis: dict[str, BotApi] = {}
        """The Bot API client of each account."""
        self.named: dict[str, str] = {}
        """Maps each account to its user name."""
        super().__init__(driver, **options)

    def setup(self) -> None:
        """Read the settings. Raises `ValueError` if a bot has an invalid token or has a
        webhook."""
        for number, info in enumerate(self.adapter_config.telegram_bots, 1):
            account = Bot.get_bot_id_by_token(info.token)
            if not account.isdecimal():
                raise ValueError(
                    f"TELEGRAM_BOTS, bot {number}: a token looks like 123456:ABC-DEF, as "
                    "@BotFather writes it"
                )
            if info.is_webhook:
                raise ValueError(
                    f"TELEGRAM_BOTS, bot {account}: leave is_webhook out. The bot polls, which "
                    "needs no public address and loses no message in a crash"
                )
            if not info.api_server.endswith("/"):
                info.api_server += "/"
            self.apis[account] = BotApi(info.api_server, info.token, self.adapter_config.proxy)
        if not self.apis:
            logger.warning(
                'TELEGRAM_BOTS names no bot: TELEGRAM_BOTS=[{"token": "123456:ABC-DEF"}]'
            )
        super().setup()

        @self.driver.on_shutdown
        async def _() -> None:
            for api in self.apis.values():
                await api.aclose()

    async def poll(self, bot: Bot) -> None:
        """Poll for updates until cancelled. Errors of the platform are logged, not raised."""
        offset: int | None = None
        failures = 0
        taken: set[int] = set()
        """The ids of the updates that are being processed and are not yet confirmed."""
        while True:
            began = anyio.current_time()
            try:
                if bot.self_id not in self.bots:
                    await self._arrive(bot)
                updates = await self._updates(bot, offset)
            except (BotApiRefused, httpx.HTTPError, TimeoutError) as error:
                self._depart(bot, error)
                pause = RETRY_S[min(failures, len(RETRY_S) - 1)]
                await anyio.sleep(max(pause, getattr(error, "retry_after", 0)))
                failures += 1
                continue
            failures = 0
            for update in updates:
                if int(update["update_id"]) not in taken:
                    taken.add(int(update["update_id"]))
                    await cast(_Counted, bot).handle_event(_event_of(update))
            stored = await self._stored(bot) if taken else True
            if stored is None:
                continue
            if stored:
                offset = max((number + 1 for number in taken), default=offset)
            else:
                await anyio.sleep(RETRY_S[0])
            taken.clear()
            if not updates and anyio.current_time() - began < EAGER_S:
                await anyio.sleep(EAGER_S)

    async def _arrive(self, bot: Bot) -> None:
        """Request the bot's name, and report the account as connected. An old webhook is deleted,
        because Telegram would send all updates to it."""
        with anyio.fail_after(LATE_S):
            me = await self.apis[bot.self_id].call("getMe", {})
            await self.apis[bot.self_id].call("deleteWebhook", {})
        bot.username = str(me.get("username") or "")
        self.named[bot.self_id] = bot.username
        if not me.get("can_read_all_group_messages", True):
            logger.info(
                "Telegram: @{} is in privacy mode: in groups it gets only commands, replies to it "
                "and mentions, unless it is an administrator. @BotFather changes that: /setprivacy",
                bot.username,
            )
        self.bot_connect(bot)

    def _depart(self, bot: Bot, error: Exception) -> None:
        words = str(error) or type(error).__name__
        if isinstance(error, BotApiRefused) and error.status_code in (401, 404):
            words = "the token is not known to Telegram; @BotFather shows the right one"
        elif isinstance(error, BotApiRefused) and error.status_code == 409:
            words = "another program asks for this bot's updates; only one can"
        logger.warning("Telegram: account {}: {}", bot.self_id, words)
        if self.bots.get(bot.self_id) is bot:
            self.bot_disconnect(bot)
        final = isinstance(error, BotApiRefused) and error.status_code in (401, 404)
        self.report_problem(bot.self_id, words, final=final)

    def report_problem(self, account: str, words: str, *, final: bool) -> None:
        """Report why an account is not connected. `manage` replaces this method."""

    async def _updates(self, bot: Bot, offset: int | None) -> list[Json]:
        """Request the unconfirmed updates. An ``offset`` confirms all updates before it."""
        question: Json = {"timeout": POLL_S} | ({} if offset is None else {"offset": offset})
        with anyio.fail_after(POLL_S + LATE_S):
            answer = await self.apis[bot.self_id].call("getUpdates", question)
        updates = answer if isinstance(answer, list) else []
        return sorted(updates, key=lambda update: int(update["update_id"]))

    async def _stored(self, bot: Bot) -> bool | None:
        """Wait at most `BESIDE_S` until all updates are stored. Return True if they are, False if
        an update could not be stored, and None if some updates are still being processed."""
        with anyio.move_on_after(BESIDE_S):
            return await cast(_Counted, bot).settled()
        return None


def _event_of(update: Json) -> Event:
    """Make NoneBot's event and attach the raw update. If NoneBot cannot read the update, the event
    has only the raw update."""
    try:
        event = Event.parse_event(deepcopy(update))
    except Exception as error:  # noqa: BLE001 - errors of pydantic, or a KeyError of the stock code
        logger.debug("Telegram: NoneBot cannot read update {}: {}", update["update_id"], error)
        event = Event.model_construct()
    event.update = update  # type: ignore[attr-defined]
    return event
