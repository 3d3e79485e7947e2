"""Connects the platforms of a Satori server (https://satori.chat/en-US/protocol/).

The id of an account or a person is ``platform:user``. Events contain only the user id.
"""

from http import HTTPStatus
from typing import Any

from nonebot.adapters import Bot as BaseBot
from nonebot.adapters import Event as BaseEvent
from nonebot.adapters.satori import Bot
from nonebot.adapters.satori.event import (
    Event,
    FriendRequestEvent,
    GuildMemberAddedEvent,
    GuildMemberRemovedEvent,
    GuildMemberRequestEvent,
    GuildRequestEvent,
    MessageCreatedEvent,
    MessageDeletedEvent,
    MessageUpdatedEvent,
)
from nonebot.drivers import Driver, Request
from nonebot_plugin_alconna import uniseg

from nekro_core.api.adapter import Capabilities, ContactRequest, ContactRequestKind, Host
from nekro_core.api.chat import (
    File,
    Forward,
    Image,
    Mention,
    Notice,
    Reply,
    Role,
    Sender,
    Text,
    Video,
    Voice,
)

from ..contact_requests import PlatformRequest
from ..platform import Platform
from ..values import native_user_id, qualified_user_id
from .accounts import SATORI
from .satori_adapter import SatoriAdapter
from .satori_connection import ResumingAdapter, SequenceFile

DOWNLOAD_BYTES = 50 * 1024 * 1024
CHUNK_BYTES = 64 * 1024


class Satori(Platform):
    """The platforms that a Satori server connects."""

    name = "satori"
    title = "Satori"
    ids_of_chat = True
    capabilities = Capabilities(
        inline=frozenset({Text, Mention, Reply, Image}),
        alone=frozenset({Voice, Video, File, Forward}),
    )

    def __init__(self, marks: SequenceFile) -> None:
        self.stock = type("SatoriAdapter", (ResumingAdapter,), {"marks": marks})

    def user_of(self, bot: BaseBot) -> str:
        """Return the account's user id without the platform."""
        assert isinstance(bot, Bot)
        return str(bot.get_self_id())  # type: ignore[no-untyped-call]

    def person(self, user_id: str, bot: BaseBot) -> str:
        """Return ``platform:user``."""
        return qualified_user_id(user_id, bot)

    def user(self, person: str, bot: BaseBot) -> str:
        """Return the user id without the platform."""
        return native_user_id(person, bot)

    def is_message(self, event: BaseEvent) -> bool:
        """Return True if the event is a new message. NoneBot gives edits and deletions the type
        "message" too."""
        return isinstance(event, MessageCreatedEvent)

    def edited_text(self, event: BaseEvent, bot: BaseBot) -> list[uniseg.Segment] | None:
        """Return the new text of an edited message."""
        if not isinstance(event, MessageUpdatedEvent):
            return None
        pieces = self.bridge.read(self.message(event))
        return [piece for piece in pieces if isinstance(piece, uniseg.Text | uniseg.At)]

    def sender(self, event: BaseEvent) -> Sender:
        """Return the author with the member's name in the chat, else with the user's name."""
        assert isinstance(event, Event)
        user, member = event.user, event.member
        names = (member and member.nick, user and user.nick, user and user.name)
        name = next((name for name in names if name), "")
        roles = {role.id for role in member.roles} if member else set()
        role = next((role for role in (Role.OWNER, Role.ADMIN) if role.value in roles), Role.MEMBER)
        return Sender(user.id if user else "", name, role)

    def time(self, event: BaseEvent) -> float | None:
        """Return the time that the server gives the event."""
        assert isinstance(event, Event)
        return event.timestamp.timestamp()

    def notice(self, event: BaseEvent) -> Notice | None:
        """Return the notice for a person who joined or left."""
        match event:
            case GuildMemberAddedEvent():
                kind = "join"
            case GuildMemberRemovedEvent():
                kind = "leave"
            case _:
                return None
        actor = event.operator.id if event.operator else event.user.id
        return Notice(kind, actor, event.user.id)

    def request(self, event: BaseEvent, bot: BaseBot) -> PlatformRequest | None:
        """Return the request. It is identified by the id of the event's message."""
        match event:
            case FriendRequestEvent():
                kind = ContactRequestKind.FRIEND
            case GuildMemberRequestEvent():
                kind = ContactRequestKind.GROUP_JOIN
            case GuildRequestEvent():
                kind = ContactRequestKind.GROUP_INVITE
            case _:
                return None
        person = event.user or event.operator
        return PlatformRequest(
            kind=kind,
            user_id=person.id if person else "",
            user_name=(person.nick or person.name or "") if person else "",
            handle=event.message.id if event.message else "",
            group_id=event.guild.id if event.guild else "",
            text=event.message.content or "" if event.message else "",
            time=event.timestamp.timestamp(),
        )

    async def answer_request(
        self, request: ContactRequest, bot: BaseBot, *, approve: bool, reason: str
    ) -> None:
        """Answer with the call of the request's kind."""
        assert isinstance(bot, Bot)
        calls = {
            ContactRequestKind.FRIEND: bot.friend_approve,
            ContactRequestKind.GROUP_JOIN: bot.guild_member_approve,
            ContactRequestKind.GROUP_INVITE: bot.guild_approve,
        }
        await calls[request.kind](request_id=request.handle, approve=approve, comment=reason)

    def recalled(self, event: BaseEvent) -> str:
        """Return the id of the deleted message."""
        return event.message.id if isinstance(event, MessageDeletedEvent) else ""

    async def download(self, bot: BaseBot, event: BaseEvent, piece: Any) -> str | bytes:
        """Download a medium that can be reached only through the Satori server."""
        assert isinstance(bot, Bot)
        address = piece.url or piece.id or ""
        internal = address.startswith(("upload:", "internal:"))
        if internal or any(address.startswith(known) for known in bot.proxy_urls):
            return await _fetched(bot, address)
        return ""


async def _fetched(bot: Bot, address: str) -> bytes:
    """Download a medium through the Satori server. The function of NoneBot's adapter is not used:
    it treats ``internal:`` as an HTTP scheme and has no size limit. Raises `OSError`."""
    question = Request("GET", f"{bot.info.api_base}/proxy/{address}")
    data = bytearray()
    async for answer in bot.sess.stream_request(question, chunk_size=CHUNK_BYTES):
        if answer.status_code >= HTTPStatus.BAD_REQUEST:
            raise OSError(f"the server answered {answer.status_code}")
        piece = answer.content
        data += piece.encode() if isinstance(piece, str) else piece or b""
        if len(data) > DOWNLOAD_BYTES:
            raise OSError(f"larger than {DOWNLOAD_BYTES} bytes")
    return bytes(data)


def create(host: Host, driver: Driver) -> SatoriAdapter:
    """Make the adapter. Raises `ValueError` if the settings are invalid."""
    return SatoriAdapter(host, driver, Satori(SequenceFile(host.data_dir / "satori")), SATORI)
