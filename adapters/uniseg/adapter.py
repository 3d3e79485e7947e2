"""The adapter for one platform. It uses a NoneBot adapter, which this package calls the stock
adapter."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup
from loguru import logger
from nonebot.adapters import Bot
from nonebot.drivers import Driver

from nekro_core.api.adapter import AdapterTasks, Capabilities, Host
from nekro_core.api.chat import ChatKey, Delivery, DeliveryState, Receipt

from .intake import UnisegIntake
from .managed_adapter import EventListener, manage
from .outcome import outcome_of
from .piece_writer import to_uniseg
from .platform import Platform
from .values import account_message_id

SEND_S = 30.0
"""Time limit for sending a message, in seconds. When it is over, the outcome counts as unknown."""
DRAIN_S = 1.0
"""Maximum seconds at shutdown for storing messages that were already received."""
END_S = 1.0
"""Time limit for the stock adapter to disconnect, in seconds."""


class UnisegAdapter:
    """`Adapter` for one platform. The platform's module makes it."""

    def __init__(
        self, host: Host, driver: Driver, platform: Platform, *, send_s: float = SEND_S
    ) -> None:
        self.name = platform.name
        self._host = host
        self._driver = driver
        self._platform = platform
        self._send_s = send_s
        self._intake = UnisegIntake(host, platform)
        self._managed = manage(platform.stock, driver, self._listener())
        self._tasks = AdapterTasks(self._serve)

    def _listener(self) -> EventListener:
        """Return the object that receives the events of the stock adapter."""
        return self._intake

    @property
    def stock(self) -> Any:
        """The stock adapter. A platform's module can change its settings."""
        return self._managed.adapter

    def capabilities(self, chat_key: ChatKey) -> Capabilities:
        """Return what one call to this chat can carry."""
        return self._platform.capabilities_of(chat_key)

    async def start(self) -> None:
        """Let the stock adapter connect. `aclose` ends all tasks that this starts."""
        await self._tasks.start(self._driver.task_group)

    async def aclose(self) -> None:
        """Disconnect. The outcome of messages that are being sent becomes unknown. May be called
        twice."""
        await self._tasks.aclose()

    @asynccontextmanager
    async def _serve(self, tasks: TaskGroup) -> AsyncIterator[None]:
        self._intake.open(tasks)
        try:
            await self._managed.start()
        except Exception:  # noqa: BLE001 - the other platforms go on if this one fails
            logger.exception("{} could not be started; the bot runs without it", self.name)
        yield
        with anyio.move_on_after(DRAIN_S):
            await self._intake.close()
        with anyio.move_on_after(END_S):
            await self._managed.end()

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:
        """Return all accounts that were connected since the start, and the account that this chat
        is bound to."""
        bound = await self._host.account_of(chat_key.instance)
        return frozenset({*self._intake.own.values(), *({bound} if bound else ())})

    async def send(self, delivery: Delivery) -> Receipt:
        """Send the message with the account that the chat is bound to, never with another one."""
        return await self._receipt(delivery.chat_key, partial(self._deliver, delivery))

    async def _receipt(self, key: ChatKey, call: Callable[[Bot], Awaitable[str]]) -> Receipt:
        """Make a call with the account that a chat is bound to, and return its outcome. The call
        returns the message's id."""
        account = await self._host.account_of(key.instance)
        if account is None:
            reason = f"no account is bound to {key.instance!r}"
            return Receipt(state=DeliveryState.REJECTED, reason=reason)
        bot = self._intake.bot(account)
        if bot is None:
            reason = f"account {account} is not connected"
            return Receipt(state=DeliveryState.PENDING, reason=reason)
        try:
            with anyio.fail_after(self._send_s):
                message_id = await call(bot)
        except TimeoutError:
            reason = f"no answer within {self._send_s:g} s; it may have arrived"
            return Receipt(state=DeliveryState.UNKNOWN, reason=reason)
        except Exception as error:  # noqa: BLE001 - the stock adapter may raise anything
            if self._platform.refused(error):
                receipt = Receipt(state=DeliveryState.REJECTED, reason=str(error) or repr(error))
            else:
                receipt = outcome_of(error)
            logger.warning("{}: {}: {}", key, receipt.state, receipt.reason)
            return receipt
        return Receipt(state=DeliveryState.SENT, message_id=message_id)

    async def _connected_bot(self, key: ChatKey) -> Bot:
        """Return the bot of the account that a chat is bound to. Raises `ConnectionError` if it is
        not connected."""
        account = await self._host.account_of(key.instance)
        bot = self._intake.bot(account or "")
        if bot is None:
            raise ConnectionError(f"account {account} is not connected")
        return bot

    async def _deliver(self, delivery: Delivery, bot: Bot) -> str:
        """Make the call and return the message's id. Errors of the stock adapter are raised."""
        key, platform, bridge = delivery.chat_key, self._platform, self._intake.bridge
        users = self._intake.users()
        pieces = await to_uniseg(delivery.segments, platform, key, users, bot)
        message = await bridge.write(pieces, bot)
        options = platform.options(delivery.segments)
        target = await self._intake.target(key)
        sent = platform.sent_id(await bridge.send(target, bot, message, options))
        return account_message_id(sent, key) if platform.ids_of_chat else sent
