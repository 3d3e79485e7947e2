"""The adapter for Matrix: sends, edits and confirms messages, and runs the accounts."""

import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import anyio
from anyio.abc import TaskGroup
from loguru import logger
from nonebot.adapters.matrix.config import BotInfo
from nonebot.drivers import Driver

from nekro_core.api.adapter import (
    AccountManager,
    AdapterTasks,
    CannotDo,
    Capabilities,
    ContactRequest,
    Host,
    PictureLimits,
    PlatformAccounts,
    SignRefused,
    UncertainDelivery,
    VoiceLimits,
)
from nekro_core.api.chat import (
    ChatKey,
    ChatKind,
    Delivery,
    DeliveryState,
    File,
    Image,
    Media,
    Mention,
    Receipt,
    Reply,
    Text,
    Video,
    Voice,
)

from .account import UPLOAD_BYTES, MatrixAccount
from .account_connector import MatrixConnector
from .account_settings import SETTING, MatrixAccountSettings, settings_of
from .contact_requests import answer
from .gateway import MatrixGateway
from .homeserver import (
    Homeserver,
    HomeserverError,
    HomeserverNotConnected,
    HomeserverOutcomeUnknown,
    HomeserverRefused,
    LoggedOut,
    RateLimited,
)
from .incoming import table, words
from .outgoing import DELIVERY_ID, TEXT_LENGTH, Content, UnsendableEvent, content_of, replacing
from .rooms import Rooms

SEND_S = 30.0
"""Time limit for sending a message, in seconds, unless ``API_TIMEOUT`` is set. When it is over, the
outcome counts as unknown."""
UPLOAD_S = 50.0
"""Time limit for uploading a medium, in seconds. A medium is uploaded before its message is
sent."""
PATIENCE_S = 15.0
"""If the server limits the rate of calls, one call waits at most this many seconds in total."""
EDIT_EVERY_S = 3.0
"""Minimum seconds between two edits. Each edit is a separate event, and by default Synapse accepts
one event in 5 s from an account."""
TYPING_S = 20.0
"""The homeserver shows that the bot is typing for so many seconds, unless the bot ends it."""
FORBIDDEN = 403
ASKED_PAGES = 10
"""Maximum number of pages that are searched for a message of unknown outcome. A page has 100
messages of the account."""
CLOCKS_S = 120.0
"""Largest expected difference between this machine's clock and the server's, in seconds."""


class MatrixAdapter:
    """`Adapter` for Matrix, `SupportsEditing`, `SupportsConfirmation`, `SupportsRequests`,
    `SupportsTyping` and `SupportsReactions`."""

    name = "matrix"

    def __init__(
        self,
        host: Host,
        driver: Driver,
        gateway: MatrixGateway,
        folder: Path,
        *,
        send_s: float = SEND_S,
    ) -> None:
        self._host = host
        self._driver = driver
        self._send_s = send_s
        self._gateway = gateway
        self._folder = folder
        bots = gateway.matrix_config.matrix_bots
        locked = [settings_of(info, number) for number, info in enumerate(bots, 1)]
        made = [self._make(info) for info in bots]
        self._accounts = list(made)
        """The accounts that are running, or that will be started."""
        self._manager = AccountManager(
            MatrixAccountSettings,
            MatrixConnector(
                {each.user_id: account for each, account in zip(locked, made, strict=True)},
                self._make,
                self._accounts,
                gateway.matrix_config.matrix_proxy,
            ),
            host.account_settings,
            adapter=self.name,
            locked=[(each, SETTING) for each in locked],
        )
        self._tasks = AdapterTasks(self._serve)

    @property
    def managed_accounts(self) -> PlatformAccounts:
        """See `SupportsAccounts`."""
        return self._manager

    def _make(self, info: BotInfo) -> MatrixAccount:
        """Make an account. If the account logs in with a password, it can get new tokens. These are
        stored in the adapter's folder, unless the settings name another file."""
        config = self._gateway.matrix_config
        if info.login_password and not config.matrix_token_store_path:
            config.matrix_token_store_path = str(self._folder / "tokens.json")
        return MatrixAccount(self._host, self._gateway, info, self._folder)

    def capabilities(self, _chat_key: ChatKey) -> Capabilities:
        """Return the same capabilities for all rooms. The size limit for media is the lowest of all
        accounts' servers."""
        most = min((account.upload_bytes for account in self._accounts), default=UPLOAD_BYTES)
        return Capabilities(
            inline=frozenset({Text, Mention, Reply, Image}),
            alone=frozenset({Voice, Video, File}),
            text_length=TEXT_LENGTH,
            images_per_call=1,
            edit_every_s=EDIT_EVERY_S,
            typing_s=TYPING_S,
            reactions=True,
            voice=VoiceLimits(formats=("ogg", "wav", "mp3", "m4a"), max_bytes=most),
            picture=PictureLimits(max_bytes=most),
            file_bytes=most,
            markdown=True,
        )

    async def start(self) -> None:
        """Begin to log in and read events, in the driver's task group. If a server cannot be
        reached, the account tries again."""
        if not self._manager.listed():
            logger.warning("Matrix: MATRIX_BOTS names no account, and the operator has added none")
        await self._tasks.start(self._driver.task_group)

    async def aclose(self) -> None:
        """Close the connections. The outcome of messages that are being sent becomes unknown. May
        be called twice."""
        await self._tasks.aclose()

    @asynccontextmanager
    async def _serve(self, tasks: TaskGroup) -> AsyncIterator[None]:
        self._manager.open(tasks)
        yield

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:
        """Return the user ids of all accounts that are known by now, and the user id that this chat
        is bound to."""
        bound = await self._host.account_of(chat_key.instance)
        accounts = {account.user_id for account in self._accounts if account.user_id}
        return frozenset(accounts | ({bound} if bound else set()))

    async def send(self, delivery: Delivery) -> Receipt:
        """Send the event with the account that the chat is bound to, never with another one."""

        async def content(server: Homeserver, rooms: Rooms) -> Content:
            return await self._content(delivery, server, rooms)

        return await self._put(delivery, content)

    async def edit(self, message_id: str, delivery: Delivery) -> Receipt:
        """Replace a message's text. See `SupportsEditing`."""

        async def content(server: Homeserver, rooms: Rooms) -> Content:
            return replacing(message_id, await self._content(delivery, server, rooms))

        receipt = await self._put(delivery, content)
        if not receipt.ok:
            return receipt
        return Receipt(state=DeliveryState.SENT, message_id=message_id)

    async def confirm(self, doubt: UncertainDelivery) -> Receipt:
        """Search the account's messages for the delivery's id. See `SupportsConfirmation`."""
        key = doubt.delivery.chat_key
        account = await self._account(key)
        if account is None or account.server is None:
            return _pending("the account is not connected")
        page = ""
        oldest = (doubt.since - CLOCKS_S) * 1000
        for _ in range(ASKED_PAGES):
            try:
                answer = table(
                    await account.server.get(
                        f"client/v3/rooms/{quote(key.native_id, safe='')}/messages",
                        {
                            "dir": "b",
                            "limit": 100,
                            "filter": _own_messages(account.user_id),
                            "from": page or None,
                        },
                    )
                )
            except HomeserverRefused as error:
                return Receipt(state=DeliveryState.UNKNOWN, reason=str(error))
            except HomeserverError as error:
                return _pending(str(error))
            chunk = answer.get("chunk")
            for event in map(table, chunk if isinstance(chunk, list) else ()):
                if table(event.get("content")).get(DELIVERY_ID) == doubt.delivery.delivery_id:
                    event_id = words(event.get("event_id"))
                    return Receipt(state=DeliveryState.SENT, message_id=event_id)
                at = event.get("origin_server_ts")
                if isinstance(at, int | float) and at < oldest:
                    return _rejected("the room does not have it")
            page = words(answer.get("end"))
            if not page:
                return _rejected("the room does not have it")
        return Receipt(state=DeliveryState.UNKNOWN, reason="too much was sent since to find it")

    async def answer_request(self, request: ContactRequest, *, approve: bool, reason: str) -> None:
        """See `SupportsRequests`."""
        account = next((each for each in self._accounts if each.user_id == request.account), None)
        server, rooms = (account.server, account.rooms) if account else (None, None)
        if server is None or rooms is None:
            raise CannotDo(f"account {request.account} is not connected")
        await answer(request, server, rooms, approve=approve, reason=reason)

    async def show_typing(self, chat_key: ChatKey, *, typing: bool) -> None:
        """Show that the bot is typing, or end it. See `SupportsTyping`."""
        account, server = await self._connected(chat_key)
        room, user = quote(chat_key.native_id, safe=""), quote(account.user_id, safe="")
        body: Content = {"typing": typing}
        if typing:
            body["timeout"] = int(TYPING_S * 1000)
        await _sign(server, f"client/v3/rooms/{room}/typing/{user}", body)

    async def react(self, chat_key: ChatKey, message_id: str, emoji: str) -> None:
        """React to a message. See `SupportsReactions`."""
        _, server = await self._connected(chat_key)
        relation = {"rel_type": "m.annotation", "event_id": message_id, "key": emoji}
        call_id = hashlib.sha256(f"{message_id} {emoji}".encode()).hexdigest()[:32]
        room = quote(chat_key.native_id, safe="")
        path = f"client/v3/rooms/{room}/send/m.reaction/{call_id}"
        await _sign(server, path, {"m.relates_to": relation})

    async def _connected(self, key: ChatKey) -> tuple[MatrixAccount, Homeserver]:
        """Return the account of a chat and its server. Raises `ConnectionError`."""
        account = await self._account(key)
        if account is None or account.server is None:
            raise ConnectionError("the account is not connected")
        return account, account.server

    async def _account(self, key: ChatKey) -> MatrixAccount | None:
        bound = await self._host.account_of(key.instance)
        return next((each for each in self._accounts if each.user_id == bound), None)

    async def _put(
        self, delivery: Delivery, make: Callable[[Homeserver, Rooms], Awaitable[Content]]
    ) -> Receipt:
        key = delivery.chat_key
        if key.kind is ChatKind.CHANNEL:
            return _rejected(f"{key}: Matrix has rooms, no channels")
        account = await self._account(key)
        if account is None:
            bound = await self._host.account_of(key.instance)
            if bound is None:
                return _rejected(f"no account is bound to {key.instance!r}")
            return _pending(f"account {bound} is not connected")
        server, rooms = account.server, account.rooms
        if server is None or rooms is None:
            return _pending(f"account {account.user_id} is not connected")
        try:
            content = await make(server, rooms)
        except UnsendableEvent as error:
            return _rejected(str(error))
        except HomeserverRefused as error:
            return _rejected(f"the medium was refused: {error}")
        except HomeserverError as error:
            # Only the upload failed, so the message has surely not been sent.
            return _pending(f"the medium could not be handed over: {error}")
        return await self._send_event(server, delivery, content)

    async def _send_event(
        self, server: Homeserver, delivery: Delivery, content: Content
    ) -> Receipt:
        key = delivery.chat_key
        # If a call is repeated with the same id, the server makes no second event. Each edit of a
        # message needs another id, so the id of an edit contains a hash of the new content.
        call_id = delivery.delivery_id
        if "m.new_content" in content:
            call_id += f"-{hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]}"
        path = (
            f"client/v3/rooms/{quote(key.native_id, safe='')}/send/m.room.message/"
            f"{quote(call_id, safe='')}"
        )
        waited = 0.0
        while True:
            try:
                answer = table(await server.call("PUT", path, body=content, seconds=self._send_s))
            except RateLimited as error:
                waited += error.seconds
                if waited > PATIENCE_S:
                    return _pending(str(error))
                await anyio.sleep(error.seconds)
            except (HomeserverNotConnected, LoggedOut) as error:
                return _pending(str(error))
            except HomeserverRefused as error:
                return _rejected(str(error))
            except HomeserverOutcomeUnknown as error:
                logger.warning("{}: outcome unknown: {}", key, error)
                return Receipt(state=DeliveryState.UNKNOWN, reason=str(error))
            else:
                bound = await self._host.account_of(key.instance)
                self._manager.count_send(bound or "")
                event_id = words(answer.get("event_id"))
                return Receipt(state=DeliveryState.SENT, message_id=event_id)

    async def _content(self, delivery: Delivery, server: Homeserver, rooms: Rooms) -> Content:
        async def upload(data: bytes, media: Media) -> str:
            answer = table(
                await server.call(
                    "POST",
                    "media/v3/upload",
                    params={"filename": media.name or None},
                    body=data,
                    mime=media.mime,
                    seconds=UPLOAD_S,
                )
            )
            return words(answer.get("content_uri"))

        async def name_of(user: str) -> str:
            return await rooms.name_of(delivery.chat_key.native_id, user)

        most = self.capabilities(delivery.chat_key).file_bytes or UPLOAD_BYTES
        return await content_of(delivery, upload, name_of, most)


async def _sign(server: Homeserver, path: str, body: Content) -> None:
    """Make a call that shows a typing state or a reaction. Raises `SignRefused` and
    `HomeserverError`."""
    try:
        await server.call("PUT", path, body=body)
    except HomeserverRefused as error:
        if error.code == "M_DUPLICATE_ANNOTATION":
            return
        if error.status == FORBIDDEN:
            raise SignRefused(str(error)) from error
        raise


def _own_messages(user: str) -> str:
    return json.dumps({"types": ["m.room.message"], "senders": [user]})


def _pending(reason: str) -> Receipt:
    return Receipt(state=DeliveryState.PENDING, reason=reason)


def _rejected(reason: str) -> Receipt:
    return Receipt(state=DeliveryState.REJECTED, reason=reason)
