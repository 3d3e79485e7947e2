"""The adapter for OneBot v11: sends and confirms messages, and runs the gateway and the intake."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import anyio
from anyio.abc import TaskGroup
from loguru import logger
from nonebot.drivers import Driver

from nekro_core.api.adapter import (
    AccountManager,
    AdapterTasks,
    CannotDo,
    Capabilities,
    ContactRequest,
    ContactRequestKind,
    Host,
    PlatformAccounts,
    PlatformMessage,
    SignRefused,
    UncertainDelivery,
    match_delivery,
)
from nekro_core.api.chat import (
    ChatKey,
    ChatKind,
    Delivery,
    DeliveryState,
    File,
    Forward,
    Image,
    Receipt,
    every_segment,
)

from .access import require_token_checks
from .account_connector import OneBotConnector
from .account_settings import OneBotAccount
from .connection import ActionError, CallRefused, NotConnected, OutcomeUnknown
from .file_transfer import FileTransfer
from .gateway import OneBotGateway
from .history import newest
from .incoming import Json, person_of, read_segments, time_of, words
from .intake import OneBotIntake
from .lookups import OfflineLookups
from .outgoing import CAPABILITIES, FORWARDS, ActionCall, UnsendableMessage, call_for
from .signs import REACTION, TYPING, TYPING_S, reaction_call, typing_call

SEND_S = 30.0
"""Time limit for sending a message, in seconds, unless ``API_TIMEOUT`` is set. When it is over, the
outcome counts as unknown."""
UPLOAD_S = 120.0
"""Time limit for sending a file, in seconds. It is longer than for other messages, because the
implementation uploads the file to the platform before it answers."""
UPLOAD_BYTES_S = 500_000
"""Slowest expected upload of an implementation, in bytes per second. The time limit is extended by
the time that a file needs at this speed."""
WITHOUT_BUNDLES = replace(CAPABILITIES, alone=CAPABILITIES.alone - {Forward})
DRAIN_S = 1.0
"""Maximum seconds at shutdown for storing messages that were already received. Messages that are
not stored by then are fetched from the history at the next connection."""


@cache
def _capabilities(*, bundles: bool, typing: bool, reactions: bool) -> Capabilities:
    """Return what one call can carry. Each turn asks for it several times."""
    can = CAPABILITIES if bundles else WITHOUT_BUNDLES
    return replace(can, typing_s=TYPING_S if typing else None, reactions=reactions)


class OneBotV11Adapter:
    """`Adapter` for OneBot v11, `SupportsConfirmation`, `SupportsAccounts`, `SupportsRequests`,
    `SupportsTyping` and `SupportsReactions`."""

    name = "onebot_v11"

    def __init__(
        self, host: Host, driver: Driver, gateway: OneBotGateway, *, send_s: float = SEND_S
    ) -> None:
        self._host = host
        self._send_s = send_s
        self._driver = driver
        self._gateway = gateway
        self._accounts = AccountManager(
            OneBotAccount,
            OneBotConnector(gateway),
            host.account_settings,
            adapter=self.name,
            locked=gateway.forward_accounts(),
        )
        gateway.manage(self._accounts)
        self._tasks = AdapterTasks(self._serve)
        self._unbundled: set[str] = set()
        self._lacking: set[tuple[str, str]] = set()
        """Pairs of an instance and an action that its implementation does not have."""

    def capabilities(self, chat_key: ChatKey) -> Capabilities:
        """Return what one call can carry. This does not include bundles, typing states and
        reactions if the account's implementation has refused them as an unknown action. QQ has
        typing states in private chats only, and reactions in groups only."""
        instance, private = chat_key.instance, chat_key.kind is ChatKind.PRIVATE
        return _capabilities(
            bundles=instance not in self._unbundled,
            typing=private and (instance, TYPING) not in self._lacking,
            reactions=not private and (instance, REACTION) not in self._lacking,
        )

    @property
    def managed_accounts(self) -> PlatformAccounts:
        """See `SupportsAccounts`. An account that connects with the shared token appears when it
        connects."""
        return self._accounts

    async def start(self) -> None:
        """Let OneBot implementations connect to the bot, and connect the bot to the implementations
        in ``ONEBOT_V11_WS_URLS``.

        The tasks run in the driver's task group. The driver's web server must run. Raises
        `RuntimeError` if another route accepts events without the token.
        """
        require_token_checks(self._driver)
        await self._tasks.start(self._driver.task_group)

    async def aclose(self) -> None:
        """Close all connections. The outcome of messages that are being sent becomes unknown. May
        be called twice."""
        await self._tasks.aclose()

    @asynccontextmanager
    async def _serve(self, tasks: TaskGroup) -> AsyncIterator[None]:
        intake = OneBotIntake(self._host, tasks, name=self.name)
        self._gateway.open(intake, tasks)
        yield
        await self._gateway.shut()
        with anyio.move_on_after(DRAIN_S):
            await intake.drain()

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:
        """Return all accounts that were connected since the start, and the account that this chat
        is bound to."""
        bound = await self._host.account_of(chat_key.instance)
        return frozenset(self._gateway.accounts | ({bound} if bound else set()))

    async def send(self, delivery: Delivery) -> Receipt:
        """Send the message with the account that the chat is bound to, never with another one."""
        account = await self._host.account_of(delivery.chat_key.instance)
        if account is None:
            return _rejected(f"no account is bound to {delivery.chat_key.instance!r}")
        try:
            placing = FileTransfer(self._gateway, self._host, account, delivery.chat_key)
            call = await call_for(delivery, placing, account)
        except UnsendableMessage as error:
            return _rejected(str(error))
        except NotConnected as error:
            return Receipt(state=DeliveryState.PENDING, reason=str(error))
        seconds = self._send_s
        if call.action.startswith("upload_"):
            seconds = UPLOAD_S + _size(delivery) / UPLOAD_BYTES_S
        elif call.action in FORWARDS:
            seconds += _size(delivery) / UPLOAD_BYTES_S
        try:
            data = await self._gateway.call(account, call.action, call.params, seconds=seconds)
        except NotConnected as error:
            return Receipt(state=DeliveryState.PENDING, reason=str(error))
        except CallRefused as error:
            return self._refused(delivery.chat_key, call.action, error)
        except OutcomeUnknown as error:
            logger.warning("{}: outcome unknown: {}", delivery.chat_key, error)
            return Receipt(state=DeliveryState.UNKNOWN, reason=str(error))
        self._accounts.count_send(account)
        return Receipt(state=DeliveryState.SENT, message_id=_sent_id(data))

    async def answer_request(self, request: ContactRequest, *, approve: bool, reason: str) -> None:
        """See `SupportsRequests`. The reason is shown only to people who want to join a group."""
        params: dict[str, Any] = {"flag": request.handle, "approve": approve}
        if request.kind is ContactRequestKind.FRIEND:
            action = "set_friend_add_request"
        else:
            action = "set_group_add_request"
            invited = request.kind is ContactRequestKind.GROUP_INVITE
            params |= {"sub_type": "invite" if invited else "add", "reason": reason}
        try:
            await self._gateway.call(request.account, action, params, seconds=self._send_s)
        except ActionError as error:
            raise CannotDo(f"{request.account}: {error}") from error

    async def show_typing(self, chat_key: ChatKey, *, typing: bool) -> None:
        """Show a friend that the bot is typing. See `SupportsTyping`. QQ ends it by itself."""
        call = typing_call(chat_key)
        account = await self._connected_account(chat_key)
        if typing:
            await self._sign(chat_key, account, call)

    async def react(self, chat_key: ChatKey, message_id: str, emoji: str) -> None:
        """React to a message of a group. See `SupportsReactions`."""
        account = await self._connected_account(chat_key)
        await self._sign(chat_key, account, reaction_call(message_id, emoji))

    async def _connected_account(self, key: ChatKey) -> str:
        account = await self._host.account_of(key.instance) or ""
        if self._gateway.connection_of(account) is None:
            raise ConnectionError(f"account {account} is not connected")
        return account

    async def _sign(self, key: ChatKey, account: str, call: ActionCall) -> None:
        """Make a call that shows a typing state or a reaction. Not every implementation has these
        actions. Raises `SignRefused` and `ActionError`."""
        try:
            await self._gateway.call(account, call.action, call.params, seconds=self._send_s)
        except CallRefused as error:
            if error.unknown_action:
                self._lacking.add((key.instance, call.action))
                raise SignRefused(f"this OneBot implementation has no {call.action}") from error
            raise SignRefused(str(error)) from error

    def _refused(self, key: ChatKey, action: str, error: CallRefused) -> Receipt:
        if action in FORWARDS and error.unknown_action:
            self._unbundled.add(key.instance)
            return _rejected(
                f"this OneBot implementation has no {action}; bundles are sent to it as quoted "
                "words from now on"
            )
        return _rejected(str(error))

    async def confirm(self, doubt: UncertainDelivery) -> Receipt:
        """Search the chat's history for the message, if the OneBot implementation has a history."""
        key = doubt.delivery.chat_key
        account = await self._host.account_of(key.instance)
        connection = self._gateway.connection_of(account or "")
        if connection is None:
            reason = f"account {account} is not connected"
            return Receipt(state=DeliveryState.PENDING, reason=reason)
        events = await newest(connection, (key.kind, key.native_id), doubt.before)
        if connection.lost:
            return Receipt(state=DeliveryState.PENDING, reason=connection.lost)
        return match_delivery(doubt, [await _shown(event, connection.account) for event in events])


async def _shown(event: Json, account: str) -> PlatformMessage:
    return PlatformMessage(
        message_id=words(event.get("message_id")),
        own=person_of(event) == account,
        segments=await read_segments(event.get("message"), OfflineLookups()),
        time=time_of(event, 0.0),
    )


def _sent_id(data: Any) -> str:
    """Return the id of the sent message. For a bundle, some implementations return only the id with
    which the bundle's messages can be requested."""
    answer = data if isinstance(data, Mapping) else {}
    names = ("message_id", "forward_id", "res_id")
    return next((str(answer[name]) for name in names if answer.get(name) is not None), "")


def _size(delivery: Delivery) -> int:
    return sum(
        each.media.size
        for each in every_segment(delivery.segments)
        if isinstance(each, File | Image)
    )


def _rejected(reason: str) -> Receipt:
    return Receipt(state=DeliveryState.REJECTED, reason=reason)
