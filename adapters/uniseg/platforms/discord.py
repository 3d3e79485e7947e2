"""Connects Discord (https://discord.com/developers/docs). A thread is a channel with its own id."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from nonebot.adapters import Bot as BaseBot
from nonebot.adapters import Event as BaseEvent
from nonebot.adapters.discord import Adapter, Bot
from nonebot.adapters.discord.api import AllowedMention, AllowedMentionType, Snowflake
from nonebot.adapters.discord.api.types import is_not_unset
from nonebot.adapters.discord.event import (
    DirectMessageCreateEvent,
    GuildMessageDeleteEvent,
    MessageCreateEvent,
)
from nonebot.adapters.discord.exception import ActionFailed
from nonebot.drivers import Driver
from nonebot_plugin_alconna import uniseg
from nonebot_plugin_alconna.uniseg import Target

from nekro_core.api.adapter import (
    Capabilities,
    Host,
    PictureLimits,
    SignRefused,
    tables_as_code,
)
from nekro_core.api.chat import (
    EVERYONE,
    ChatKey,
    ChatKind,
    Delivery,
    File,
    Image,
    Mention,
    Reply,
    Segments,
    Sender,
    Text,
    Video,
    Voice,
)

from ..adapter import UnisegAdapter
from ..editing_adapter import EditingUnisegAdapter
from ..piece_reader import PieceReader
from ..platform import Platform
from ..values import Address
from .accounts import DISCORD

EDIT_EVERY_S = 1.5
"""Minimum seconds between two edits. Discord accepts 5 edits in 5 s in a channel."""
TYPING_S = 10.0
"""Discord shows that a bot is typing for so many seconds, or until its next message."""
_REFUSALS = (400, 403)
"""With these status codes, Discord refuses the typing state, or the emoji, for good."""
_USER = "nekro_user"
"""The field of a direct message's target that holds the user's id."""
_REFERENCE = re.compile(r"<@!?(\d+)>|<@&(\d+)>|<#(\d+)>|<a?:(\w+):(\d+)>")
_FORMS: Mapping[str, type[uniseg.segment.Media]] = {
    "image": uniseg.Image,
    "audio": uniseg.Voice,
    "video": uniseg.Video,
}


class Discord(Platform):
    """Discord's servers and direct messages."""

    name = "discord"
    title = "Discord"
    stock = Adapter
    capabilities = Capabilities(
        inline=frozenset({Text, Mention, Reply, Image}),
        alone=frozenset({Voice, Video, File}),
        text_length=2000,
        edit_every_s=EDIT_EVERY_S,
        typing_s=TYPING_S,
        reactions=True,
        picture=PictureLimits(),
        file_bytes=10 * 1024 * 1024,
        markdown=True,
    )
    nearest = {Voice: File}  # noqa: RUF012 - never changed

    def user_of(self, bot: BaseBot) -> str:
        """Return the bot's user id. In old applications it differs from the application's id, which
        is `Bot.self_id`."""
        assert isinstance(bot, Bot)
        return str(bot.self_info.id) if bot.ready else bot.self_id

    def place(self, event: BaseEvent, bot: BaseBot) -> Target | None:
        """Return the channel of an event. For a direct message, the library uniseg would treat the
        channel's id as a user's id and open a new channel with that user."""
        match event:
            case DirectMessageCreateEvent():
                user = {_USER: str(event.author.id)}
                return Target(str(event.channel_id), channel=True, extra=user)
            case GuildMessageDeleteEvent():
                return Target(str(event.channel_id), channel=True)
        return super().place(event, bot)

    def address(self, target: Target) -> Address:
        """Return a private chat for a direct message, and a channel for other events."""
        if user := target.extra.get(_USER):
            return Address(ChatKind.PRIVATE, user)
        return Address(ChatKind.CHANNEL, target.id)

    def is_message(self, event: BaseEvent) -> bool:
        """Return True if the event is a message that a person wrote."""
        return isinstance(event, MessageCreateEvent)

    async def segments(self, event: BaseEvent, bot: BaseBot, reader: PieceReader) -> Segments:
        """Convert the message without NoneBot's adapter and uniseg. NoneBot's adapter leaves out
        text that looks like the end of a tag, and turns ``&amp;`` into ``&``. Uniseg returns the
        names of attachments without their addresses."""
        assert isinstance(event, MessageCreateEvent)
        pieces = list(_of_text(event.content))
        if event.mention_everyone:
            pieces.insert(0, uniseg.AtAll())
        for attachment in event.attachments:
            mime = attachment.content_type if is_not_unset(attachment.content_type) else ""
            form = _FORMS.get(str(mime).partition("/")[0], uniseg.File)
            pieces.append(form(url=attachment.url, name=attachment.filename))
        said = await reader.read(pieces)
        reply = self.quoted(event)
        return said if reply is None else (await reader.quoted(reply), *said)

    def quoted(self, event: BaseEvent) -> Reply | None:
        """Return the answered message. Usually the event contains its author and text."""
        assert isinstance(event, MessageCreateEvent)
        reference, message = event.message_reference, event.referenced_message
        if not is_not_unset(reference) or not is_not_unset(reference.message_id):
            return None
        if is_not_unset(message) and message is not None:
            return Reply(str(message.id), str(message.author.id), message.content)
        return Reply(str(reference.message_id))

    def sender(self, event: BaseEvent) -> Sender:
        """Return the author with the nickname on the server. Without a nickname, the name is the
        display name or the user name."""
        assert isinstance(event, MessageCreateEvent)
        member, author = getattr(event, "member", None), event.author
        names = (getattr(member, "nick", None), author.global_name, author.username)
        return Sender(str(author.id), next((n for n in names if isinstance(n, str) and n), ""))

    def time(self, event: BaseEvent) -> float | None:
        """Return the time that Discord gives the message."""
        return event.timestamp.timestamp() if isinstance(event, MessageCreateEvent) else None

    def recalled(self, event: BaseEvent) -> str:
        """Return the id of the deleted message."""
        return str(event.id) if isinstance(event, GuildMessageDeleteEvent) else ""

    def markdown(self, text: str) -> uniseg.Segment:
        """Send the text unchanged, because Discord reads Markdown. Discord has no tables, so tables
        are written as code."""
        shown = tables_as_code(text)
        return uniseg.Text(shown if len(shown) <= self.capabilities.text_length else text)

    def options(self, segments: Segments) -> Mapping[str, Any]:
        """Allow only the mentions that are segments. Otherwise a text that looks like a mention
        would notify people too."""
        mentioned = [segment.user_id for segment in segments if isinstance(segment, Mention)]
        users = [Snowflake(user) for user in mentioned if user.isdecimal()]
        parse = [AllowedMentionType.EveryoneMentions] if EVERYONE in mentioned else []
        return {
            "allowed_mentions": AllowedMention(
                parse=parse, roles=[], users=users, replied_user=True
            )
        }


def _of_text(content: str) -> Iterator[uniseg.Segment]:
    """Split a text at Discord's references to users, roles, channels and emoji."""
    end = 0
    for match in _REFERENCE.finditer(content):
        yield uniseg.Text(content[end : match.start()])
        end = match.end()
        user, role, channel, emoji, number = match.groups()
        if user or role or channel:
            flag: Literal["user", "role", "channel"]
            flag = "user" if user else "role" if role else "channel"
            yield uniseg.At(flag, user or role or channel)
        else:
            yield uniseg.Emoji(number, emoji)
    yield uniseg.Text(content[end:])


class DiscordAdapter(EditingUnisegAdapter):
    """`EditingUnisegAdapter` with `SupportsTyping` and `SupportsReactions`."""

    async def _edit(self, message_id: str, delivery: Delivery, bot: BaseBot) -> None:
        assert isinstance(bot, Bot)
        message = await self._new_text(delivery.segments, delivery, bot)
        await bot.edit_message(
            channel_id=await self._channel(delivery.chat_key, bot),
            message_id=int(message_id),
            content=message.sendable().extract_content(),
            **self._platform.options(delivery.segments),
        )

    async def show_typing(self, chat_key: ChatKey, *, typing: bool) -> None:
        """Show that the bot is typing. See `SupportsTyping`. Discord cannot end it."""
        bot = await self._connected_bot(chat_key)
        assert isinstance(bot, Bot)
        if typing:
            with _refusals():
                channel = await self._channel(chat_key, bot)
                await bot.trigger_typing_indicator(channel_id=channel)

    async def react(self, chat_key: ChatKey, message_id: str, emoji: str) -> None:
        """React to a message. See `SupportsReactions`. A custom emoji is written ``name:id``."""
        bot = await self._connected_bot(chat_key)
        assert isinstance(bot, Bot)
        with _refusals():
            channel = await self._channel(chat_key, bot)
            await bot.create_reaction(channel_id=channel, message_id=int(message_id), emoji=emoji)

    async def _channel(self, key: ChatKey, bot: Bot) -> int:
        """Return the channel of a chat. For a private chat without an event since the start, ask
        Discord for it."""
        target = await self._intake.target(key)
        if not target.private:
            return int(target.id)
        return int((await bot.create_DM(recipient_id=int(target.id))).id)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except ActionFailed as error:
        if error.status_code in _REFUSALS:
            raise SignRefused(str(error.message or error)) from error
        raise


def create(host: Host, driver: Driver) -> UnisegAdapter:
    """Make the adapter. Raises `ValueError` if the settings are invalid."""
    return DiscordAdapter(host, driver, Discord(), DISCORD)
