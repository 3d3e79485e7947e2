"""The adapter for Satori, which can ask the server whether a message has arrived."""

from functools import partial

import anyio
from nonebot.adapters.satori import Bot, Message
from nonebot.adapters.satori.models import MessageObject

from nekro_core.api.adapter import PlatformMessage, UncertainDelivery, match_delivery
from nekro_core.api.chat import ChatKey, DeliveryState, Receipt

from ..outcome import outcome_of
from ..piece_reader import outline
from ..requesting_adapter import RequestingUnisegAdapter
from ..values import account_message_id

FEATURE = "message.list"
ASK_S = 10.0
PAGE = 100
"""Maximum number of messages that are requested: the newest ones of the chat. Only one page is
read, because servers differ in how older pages are requested, and a history with a gap would prove
nothing."""


class SatoriAdapter(RequestingUnisegAdapter):
    """`RequestingUnisegAdapter` with `SupportsConfirmation`."""

    async def confirm(self, doubt: UncertainDelivery) -> Receipt:
        """Search the channel's history for the message, if the server offers the history. The
        platform may have changed the message, so the contents need not be equal."""
        key = doubt.delivery.chat_key
        account = await self._host.account_of(key.instance)
        bot = self._intake.bot(account or "")
        if bot is None:
            return _pending(f"account {account} is not connected")
        assert isinstance(bot, Bot)
        if FEATURE not in bot.support_features:
            return _unknown(f"this Satori server does not offer {FEATURE}: it cannot be asked")
        try:
            with anyio.fail_after(ASK_S):
                messages = await self._newest(bot, key)
        except TimeoutError:
            return _pending(f"the server did not answer {FEATURE} within {ASK_S:g} s")
        except Exception as error:  # noqa: BLE001 - the stock adapter may raise anything
            receipt = outcome_of(error)
            clear = receipt.state is DeliveryState.REJECTED or isinstance(error, ValueError)
            return (_unknown if clear else _pending)(f"{FEATURE}: {receipt.reason}")
        return match_delivery(
            doubt, [self._shown(each, bot, key) for each in messages], faithful=False
        )

    async def _newest(self, bot: Bot, key: ChatKey) -> list[MessageObject]:
        """Return the newest messages of a chat, oldest first."""
        target = await self._intake.target(key)
        channel = target.id
        if target.private:
            channel = (await bot.user_channel_create(user_id=target.id)).id
        messages = (await bot.message_list(channel_id=channel, limit=PAGE)).data
        # Some servers return the newest message first.
        return (
            sorted(messages, key=_time) if all(each.created_at for each in messages) else messages
        )

    def _shown(self, message: MessageObject, bot: Bot, key: ChatKey) -> PlatformMessage:
        return PlatformMessage(
            message_id=account_message_id(message.id, key),
            own=message.user is not None and message.user.id == self._platform.user_of(bot),
            segments=outline(
                self._intake.bridge.read(Message(message.content)),
                partial(self._intake.named, bot),
            ),
            time=_time(message),
        )


def _time(message: MessageObject) -> float:
    return message.created_at.timestamp() if message.created_at else 0.0


def _pending(reason: str) -> Receipt:
    return Receipt(state=DeliveryState.PENDING, reason=reason)


def _unknown(reason: str) -> Receipt:
    return Receipt(state=DeliveryState.UNKNOWN, reason=reason)
