"""Connects KOOK, also called Kaiheila (https://developer.kookapp.cn/doc)."""

from typing import Any

from nonebot.adapters import Bot as BaseBot
from nonebot.adapters import Event as BaseEvent
from nonebot.adapters import Message
from nonebot.adapters.kaiheila import Adapter
from nonebot.adapters.kaiheila.event import (
    ChannelDeleteMessageEvent,
    ChannelMessageEvent,
    Event,
    MessageEvent,
    PrivateMessageEvent,
)
from nonebot.adapters.kaiheila.message import KMarkdown, MessageSegment
from nonebot.adapters.kaiheila.utils import escape_kmarkdown, unescape_kmarkdown
from nonebot.drivers import Driver
from nonebot_plugin_alconna import uniseg
from nonebot_plugin_alconna.uniseg import Target

from nekro_core.api.adapter import (
    Capabilities,
    Host,
    PictureLimits,
    StyledPart,
    TextStyle,
    VoiceLimits,
    plain_from_markdown,
    styled_text,
)
from nekro_core.api.chat import (
    ChatKind,
    File,
    Image,
    Mention,
    Reply,
    Sender,
    Text,
    Video,
    Voice,
)

from ..account_adapter import ManagedUnisegAdapter
from ..adapter import UnisegAdapter
from ..platform import Platform
from ..values import Address
from .accounts import KOOK


class Kook(Platform):
    """KOOK's channels and private chats."""

    name = "kook"
    title = "KOOK"
    stock = Adapter
    # A text beside a picture is sent as a card, and a paragraph of a card holds 2000 characters.
    capabilities = Capabilities(
        inline=frozenset({Text, Mention, Reply, Image}),
        alone=frozenset({Voice, Video, File}),
        text_length=2000,
        voice=VoiceLimits(formats=("mp3", "m4a", "wav")),
        picture=PictureLimits(),
        file_bytes=10 * 1024 * 1024,
        markdown=True,
    )

    def is_message(self, event: BaseEvent) -> bool:
        """Return True if the event is a message that a person wrote."""
        return isinstance(event, MessageEvent)

    def place(self, event: BaseEvent, bot: BaseBot) -> Target | None:
        """Return the channel or the person of an event. The event of a deletion has its channel in
        another field."""
        match event:
            case PrivateMessageEvent():
                return Target(event.user_id, private=True)
            case ChannelMessageEvent():
                return Target(event.group_id)
            case ChannelDeleteMessageEvent() if event.extra.body is not None:
                return Target(str(event.extra.body.channel_id))
        return None

    def address(self, target: Target) -> Address:
        """Return a private chat or a channel; KOOK has no groups."""
        return Address(ChatKind.PRIVATE if target.private else ChatKind.CHANNEL, target.id)

    def message(self, event: BaseEvent) -> Message[Any]:
        r"""Return the message with escapes resolved: ``\*`` becomes the ``*`` that people see."""
        message = event.get_message()
        return type(message)(
            MessageSegment.text(unescape_kmarkdown(segment.data["content"]))
            if isinstance(segment, KMarkdown) and "(" not in segment.data["content"]
            else segment
            for segment in message
        )

    def sender(self, event: BaseEvent) -> Sender:
        """Return the author with the nickname on the server, else with the user name."""
        assert isinstance(event, Event)
        author = event.extra.author
        return Sender(event.user_id, (author.nickname or author.username or "") if author else "")

    def time(self, event: BaseEvent) -> float | None:
        """Return the time that the server gives the event. KOOK writes it in milliseconds."""
        return event.msg_timestamp / 1000 if isinstance(event, Event) else None

    def recalled(self, event: BaseEvent) -> str:
        """Return the id of the deleted message."""
        if isinstance(event, ChannelDeleteMessageEvent) and event.extra.body is not None:
            return str(event.extra.body.msg_id)
        return ""

    def markdown(self, text: str) -> uniseg.Segment:
        """Write the text in KMarkdown, which has no headings, lists and tables."""
        written = "".join(map(_kmarkdown, styled_text(text)))
        if len(written) > self.capabilities.text_length:
            return uniseg.Text(plain_from_markdown(text))
        return uniseg.Text(written, {(0, len(written)): ["markdown"]})

    async def download(self, bot: BaseBot, event: BaseEvent, piece: Any) -> str | bytes:
        """Return the address of a file. The library uniseg puts the address into the id field."""
        return piece.id if piece.id and piece.id.startswith(("http://", "https://")) else ""


_MARKS = {
    TextStyle.BOLD: "**",
    TextStyle.HEADING: "**",
    TextStyle.ITALIC: "*",
}


def _kmarkdown(part: StyledPart) -> str:
    """Write one part of a text in KMarkdown. There is no space between the marks and their words,
    because a space would make the marks visible."""
    if TextStyle.BLOCK in part.styles:
        return f"```{part.language}\n{part.text}\n```"
    words = part.text.strip()
    if not words:
        return part.text
    if TextStyle.CODE in part.styles:
        written = f"`{words}`"
    else:
        written = str(escape_kmarkdown(words))
        for mark in sorted({_MARKS[style] for style in part.styles}):
            written = f"{mark}{written}{mark}"
    if part.link:
        written = f"[{written}]({part.link})"
    before, _, after = part.text.partition(words)
    return f"{before}{written}{after}"


def create(host: Host, driver: Driver) -> UnisegAdapter:
    """Make the adapter. Raises `ValueError` if the settings are invalid."""
    return ManagedUnisegAdapter(host, driver, Kook(), KOOK)
