"""The adapter for Telegram: sends and edits messages with the Bot API."""

from collections.abc import Callable
from typing import Any

import anyio
import httpx
from loguru import logger
from nonebot.adapters import Bot
from nonebot.drivers import Driver

from nekro_core.api.adapter import Host, SignRefused
from nekro_core.api.chat import ChatKey, Delivery, DeliveryState, Mention, Receipt

from ...bridge import CannotSend
from ...outcome import outcome_of
from ...requesting_adapter import RequestingUnisegAdapter
from ...values import account_message_id
from ..accounts import TELEGRAM
from .calls import BotApiRefused, Json
from .platform import Telegram
from .polling import PollingAdapter
from .reading import person_of
from .writing import BotApiCall, call_for, edit_for, reaction_for, typing_for

SEND_S = 50.0
"""Time limit for sending a message, in seconds. A file of 50 MB at 10 Mbit/s takes 40 s."""
WAIT_S = 10.0
"""Maximum seconds that a call waits because of Telegram's rate limit. If it would have to wait
longer, the message stays pending."""
NAME_S = 5.0
"""Time limit for requesting a name, in seconds. Without a name, a mention shows the user id."""
UNCHANGED = "message is not modified"
FORBIDDEN = 403
REFUSALS = (400, FORBIDDEN)
"""With these status codes, Telegram refuses a typing state in this chat for good."""
REACTION = "REACTION_"
"""If Telegram or a chat does not allow an emoji as a reaction, the error text contains this."""


class TelegramAdapter(RequestingUnisegAdapter):
    """`RequestingUnisegAdapter` with `SupportsEditing`, `SupportsTyping` and
    `SupportsReactions`."""

    def __init__(
        self,
        host: Host,
        driver: Driver,
        *,
        send_s: float = SEND_S,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        telegram = Telegram()
        super().__init__(host, driver, telegram, TELEGRAM, send_s=send_s)
        self._names = telegram.names
        self._clock = clock
        self._quiet: dict[tuple[str, Any], tuple[float, BotApiRefused]] = {}
        """Rate limits. For an account and a chat: the time of the next allowed call, and the
        refusal that stated this time."""
        self._moved: dict[int, int] = {}

    async def edit(self, message_id: str, delivery: Delivery) -> Receipt:
        """Replace a message's text. If Telegram refuses because the text is unchanged, the edit
        counts as sent."""
        try:
            bot = await self._connected_bot(delivery.chat_key)
        except ConnectionError as error:
            return Receipt(state=DeliveryState.PENDING, reason=str(error))
        try:
            with anyio.fail_after(self._send_s):
                await self._call(bot, edit_for(message_id, delivery, self._names))
        except TimeoutError:
            reason = f"no answer within {self._send_s:g} s"
            return Receipt(state=DeliveryState.UNKNOWN, reason=reason)
        except (BotApiRefused, httpx.HTTPError, CannotSend) as error:
            if not isinstance(error, BotApiRefused) or UNCHANGED not in error.words:
                return outcome_of(error)
        return Receipt(state=DeliveryState.SENT, message_id=message_id)

    async def show_typing(self, chat_key: ChatKey, *, typing: bool) -> None:
        """Show that the bot is typing, for 5 s or until its next message. See `SupportsTyping`.
        Telegram cannot end it earlier."""
        bot = await self._connected_bot(chat_key)
        if not typing:
            return
        try:
            await self._call_unless_quiet(bot, typing_for(chat_key))
        except BotApiRefused as error:
            if error.status_code in REFUSALS:
                raise SignRefused(str(error)) from error
            raise

    async def react(self, chat_key: ChatKey, message_id: str, emoji: str) -> None:
        """Set the bot's reaction to a message. See `SupportsReactions`."""
        bot = await self._connected_bot(chat_key)
        try:
            await self._call_unless_quiet(bot, reaction_for(chat_key, message_id, emoji))
        except BotApiRefused as error:
            if error.status_code == FORBIDDEN or REACTION in error.words:
                raise SignRefused(str(error)) from error
            raise

    async def _call_unless_quiet(self, bot: Bot, call: BotApiCall) -> None:
        """Make a call that is left out if it would have to wait. While the rate limit allows no
        call, raise the refusal that stated the limit. So the next allowed call is left for a
        message."""
        until, refusal = self._quiet.get((bot.self_id, call.params["chat_id"]), (0.0, None))
        if refusal is not None and until > self._clock():
            raise refusal
        await self._call(bot, call)

    async def _learn_names(self, bot: Bot, delivery: Delivery) -> None:
        """Request the names of mentioned people who have not written since the start."""
        for segment in delivery.segments:
            if not isinstance(segment, Mention) or not segment.user_id.isdecimal():
                continue
            if segment.name or segment.user_id in self._names:
                continue
            question = {
                "chat_id": delivery.chat_key.native_id,
                "user_id": int(segment.user_id),
            }
            with anyio.move_on_after(NAME_S):
                try:
                    member = await self._call(bot, BotApiCall("getChatMember", question))
                except (BotApiRefused, httpx.HTTPError) as error:
                    logger.debug("Telegram: no name of {}: {}", segment.user_id, error)
                    continue
                if isinstance(member, dict) and isinstance(member.get("user"), dict):
                    self._names[segment.user_id] = person_of(member["user"])[1]

    async def _deliver(self, delivery: Delivery, bot: Bot) -> str:
        await self._learn_names(bot, delivery)
        result = await self._call(bot, await call_for(delivery, self._names))
        first = result[0] if isinstance(result, list) and result else result
        sent = str(first["message_id"]) if isinstance(first, dict) else ""
        return account_message_id(sent, delivery.chat_key)

    async def _call(self, bot: Bot, call: BotApiCall) -> Json | list[Json] | bool:
        """Wait until Telegram's rate limit allows a call, and make it. If the wait would be longer
        than `WAIT_S`, raise the refusal that stated the limit instead. Raises `BotApiRefused` and
        `httpx.HTTPError`."""
        adapter = bot.adapter
        assert isinstance(adapter, PollingAdapter)
        chat = call.params["chat_id"]
        await self._wait_for_quiet(bot.self_id, chat)
        params = {**call.params, "chat_id": self._moved.get(chat, chat)}
        try:
            answer: Json | list[Json] | bool = await adapter.apis[bot.self_id].call(
                call.method, params, call.files
            )
        except BotApiRefused as error:
            if error.retry_after:
                self._quiet[bot.self_id, chat] = self._clock() + error.retry_after, error
            if not isinstance(error.moved_to, int):
                raise
            # The group became a supergroup, which has another id. Nothing was sent to the old id.
            self._moved[chat] = error.moved_to
            params["chat_id"] = error.moved_to
            return await adapter.apis[bot.self_id].call(  # type: ignore[no-any-return]
                call.method, params, call.files
            )
        return answer

    async def _wait_for_quiet(self, account: str, chat: Any) -> None:
        limit = self._quiet.get((account, chat))
        if limit is None:
            return
        until, refusal = limit
        pause = until - self._clock()
        if pause > WAIT_S:
            raise refusal
        await anyio.sleep(max(pause, 0.0))
        # The limit stays known during the wait: meanwhile other calls are not made either.
        if self._quiet.get((account, chat)) is limit:
            del self._quiet[account, chat]


def create(host: Host, driver: Driver) -> TelegramAdapter:
    """Make the adapter. Raises `ValueError` if the settings are invalid."""
    return TelegramAdapter(host, driver)
