"""Connects QQ over Milky, a protocol of Lagrange V2, LLBot and others (https://milky.ntqqrev.org).

A message's id is its sequence number, which each chat counts separately.
"""

import re
from typing import Any

from nonebot.adapters import Bot as BaseBot
from nonebot.adapters import Event as BaseEvent
from nonebot.adapters.milky import Adapter, Bot
from nonebot.adapters.milky.event import (
    Event,
    FriendFileUploadEvent,
    FriendNudgeEvent,
    FriendRequestEvent,
    GroupFileUploadEvent,
    GroupInvitationEvent,
    GroupInvitedJoinRequestEvent,
    GroupJoinRequestEvent,
    GroupMemberDecreaseEvent,
    GroupMemberIncreaseEvent,
    GroupNudgeEvent,
    MessageEvent,
    MessageRecallEvent,
)
from nonebot.drivers import Driver
from nonebot_plugin_alconna import uniseg
from nonebot_plugin_alconna.uniseg import Target

from nekro_core.api.adapter import (
    Capabilities,
    ContactRequest,
    ContactRequestKind,
    Host,
    PictureLimits,
    VoiceLimits,
)
from nekro_core.api.chat import (
    File,
    Forward,
    ForwardedMessage,
    Image,
    Mention,
    Notice,
    Reply,
    Role,
    Segments,
    Sender,
    Text,
    Video,
    Voice,
)
from nekro_core.api.secrets import ComparedSecret

from ..adapter import UnisegAdapter
from ..contact_requests import PlatformRequest
from ..piece_reader import PieceReader
from ..platform import Platform
from ..requesting_adapter import RequestingUnisegAdapter
from ..values import sent_message_id
from .accounts import MILKY

_UPLOADS = (FriendFileUploadEvent, GroupFileUploadEvent)


class Milky(Platform):
    """QQ's groups and private chats through Milky."""

    name = "milky"
    title = "Milky"
    stock = Adapter
    ids_of_chat = True
    capabilities = Capabilities(
        inline=frozenset({Text, Mention, Reply, Image}),
        alone=frozenset({Voice, Video, File, Forward}),
        voice=VoiceLimits(formats=("wav", "silk"), converts=True),
        picture=PictureLimits(),
        file_bytes=10 * 1024 * 1024,
    )

    def is_message(self, event: BaseEvent) -> bool:
        """Return True if the event is a message. An uploaded file arrives as a notice, and counts
        as a message."""
        return isinstance(event, (MessageEvent, *_UPLOADS))

    def place(self, event: BaseEvent, bot: BaseBot) -> Target | None:
        """Return the chat of an event. The lookup of the library uniseg is not used, because it
        returns a group for a private message from somebody who is not a friend of the account."""
        match event:
            case MessageEvent() | MessageRecallEvent():
                private = event.data.message_scene != "group"
                return Target(str(event.data.peer_id), private=private)
            case FriendFileUploadEvent() | FriendNudgeEvent():
                return Target(str(event.data.user_id), private=True)
        group = getattr(getattr(event, "data", None), "group_id", None)
        return Target(str(group)) if group else None

    def message_id(self, event: BaseEvent) -> str:
        """Return the sequence number. For an uploaded file, return the file's id."""
        if isinstance(event, _UPLOADS):
            return event.data.file_id
        assert isinstance(event, MessageEvent)
        return str(event.data.message_seq)

    async def segments(self, event: BaseEvent, bot: BaseBot, reader: PieceReader) -> Segments:
        """Convert the message, or the uploaded file."""
        if isinstance(event, _UPLOADS):
            piece = uniseg.File(id=event.data.file_id, name=event.data.file_name)
            return await reader.read([piece])
        return await super().segments(event, bot, reader)

    def sender(self, event: BaseEvent) -> Sender:
        """Return the author with their name in the group, else with their nickname."""
        if not isinstance(event, MessageEvent):
            # This is an uploaded file. Both types of such events have a ``user_id``.
            return Sender(str(getattr(event, "data").user_id))  # noqa: B009 - of two event types
        member, friend = event.data.group_member, event.data.friend
        if member is not None:
            role = Role(member.role)
            return Sender(str(event.data.sender_id), member.card or member.nickname, role)
        return Sender(str(event.data.sender_id), friend.nickname if friend else "")

    def time(self, event: BaseEvent) -> float | None:
        """Return the time that the platform gives the event."""
        return float(event.time) if isinstance(event, Event) else None

    def notice(self, event: BaseEvent) -> Notice | None:
        """Return the notice for a person who joined, left or poked somebody."""
        match event:
            case GroupMemberIncreaseEvent(data=data):
                by = data.operator_id or data.invitor_id or data.user_id
                return Notice("join", str(by), str(data.user_id))
            case GroupMemberDecreaseEvent(data=data):
                return Notice("leave", str(data.operator_id or data.user_id), str(data.user_id))
            case GroupNudgeEvent(data=data):
                return Notice("poke", str(data.sender_id), str(data.receiver_id))
            case FriendNudgeEvent(data=data) if data.is_self_receive and not data.is_self_send:
                return Notice("poke", str(data.user_id), str(event.self_id))
        return None

    def request(self, event: BaseEvent, bot: BaseBot) -> PlatformRequest | None:
        """Return the request. Its handle contains what the call of the answer needs."""
        group, text = "", ""
        match event:
            case FriendRequestEvent(data=data):
                kind, handle, text = ContactRequestKind.FRIEND, data.initiator_uid, data.comment
            case GroupJoinRequestEvent(data=data):
                kind, text = ContactRequestKind.GROUP_JOIN, data.comment
                filtered = "filtered" if data.is_filtered else ""
                handle = f"join_request:{data.notification_seq}:{filtered}"
                group = str(data.group_id)
            case GroupInvitedJoinRequestEvent(data=data):
                kind = ContactRequestKind.GROUP_JOIN
                handle = f"invited_join_request:{data.notification_seq}:"
                group, text = str(data.group_id), f"→ {data.target_user_id}"
            case GroupInvitationEvent(data=data):
                kind, handle = ContactRequestKind.GROUP_INVITE, str(data.invitation_seq)
                group = str(data.group_id)
            case _:
                return None
        return PlatformRequest(
            kind=kind,
            user_id=str(data.initiator_id),
            handle=handle,
            group_id=group,
            text=text,
            time=float(event.time),
        )

    async def answer_request(
        self, request: ContactRequest, bot: BaseBot, *, approve: bool, reason: str
    ) -> None:
        """Answer with the call of the request's kind. An invitation is refused without a
        reason."""
        assert isinstance(bot, Bot)
        said: dict[str, Any] = {} if approve else {"reason": reason or None}
        if request.kind is ContactRequestKind.FRIEND:
            friend = bot.accept_friend_request if approve else bot.reject_friend_request
            await friend(initiator_uid=request.handle, **said)
        elif request.kind is ContactRequestKind.GROUP_INVITE:
            invitation = bot.accept_group_invitation if approve else bot.reject_group_invitation
            await invitation(group_id=int(request.group_id), invitation_seq=int(request.handle))
        else:
            kind, number, filtered = request.handle.split(":")
            joining: Any = bot.accept_group_request if approve else bot.reject_group_request
            await joining(
                notification_seq=int(number),
                notification_type=kind,
                group_id=int(request.group_id),
                is_filtered=bool(filtered),
                **said,
            )

    def recalled(self, event: BaseEvent) -> str:
        """Return the id of the recalled message."""
        return str(event.data.message_seq) if isinstance(event, MessageRecallEvent) else ""

    async def download(self, bot: BaseBot, event: BaseEvent, piece: Any) -> str | bytes:
        """Return the address from which the Milky server offers a medium. Return an empty text if
        the message contains the address itself, or if the message has no id of the medium."""
        assert isinstance(bot, Bot)
        match event:
            case GroupFileUploadEvent(data=data):
                return str(
                    await bot.get_group_file_download_url(
                        group_id=data.group_id, file_id=data.file_id
                    )
                )
            case FriendFileUploadEvent(data=data):
                return str(
                    await bot.get_private_file_download_url(
                        user_id=data.user_id, file_id=data.file_id, file_hash=data.file_hash
                    )
                )
        if piece.url or not piece.id:
            return ""
        return str(await bot.get_resource_temp_url(resource_id=piece.id))

    def bundle_author(self, message: ForwardedMessage, ours: str) -> str:
        """Return the author's QQ number. For an author without a QQ number, return the number of
        the bot's account."""
        return message.sender_id if re.fullmatch("[1-9][0-9]*", message.sender_id) else ours

    def sent_id(self, result: Any) -> str:
        """Return the message's id. It is empty for an uploaded file, because the platform returns
        no sequence number for it."""
        return "" if isinstance(result, uniseg.File) else sent_message_id(result)


def create(host: Host, driver: Driver) -> UnisegAdapter:
    """Make the adapter. Raises `RuntimeError` if the settings have a webhook without a token, and
    `ValueError` if the settings are invalid."""
    webhook = host.settings.get("milky_webhook")
    if webhook and not dict(webhook).get("access_token"):
        raise RuntimeError(
            "MILKY_WEBHOOK has no access_token, so anybody who reaches the port could send events "
            "as any person: set one, and the same in the Milky implementation"
        )
    adapter = RequestingUnisegAdapter(host, driver, Milky(), MILKY)
    hook = adapter.stock.milky_config.milky_webhook
    if hook:
        hook.access_token = ComparedSecret(hook.access_token)
    return adapter
