"""Connects Feishu, which is called Lark outside China (https://open.feishu.cn/document).

A message that has only text uses a simple markup. A message of several parts is a ``post``.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nonebot.adapters import Bot as BaseBot
from nonebot.adapters import Event as BaseEvent
from nonebot.adapters.feishu import Adapter, Bot
from nonebot.adapters.feishu.config import Config
from nonebot.adapters.feishu.event import (
    Event,
    GroupMemberUserAddedEvent,
    GroupMemberUserDeletedEvent,
    GroupMemberUserWithdrawnEvent,
    MessageEvent,
)
from nonebot.adapters.feishu.message import MessageSegment
from nonebot.drivers import Driver
from nonebot_plugin_alconna import uniseg
from nonebot_plugin_alconna.uniseg import Target
from pydantic import Field, SecretStr

from nekro_core.api.adapter import (
    Capabilities,
    Host,
    PictureLimits,
    StyledPart,
    TextStyle,
    styled_text,
)
from nekro_core.api.chat import (
    Delivery,
    File,
    Image,
    Mention,
    Notice,
    Reply,
    Segments,
    Sender,
    Text,
    Video,
    Voice,
)
from nekro_core.api.secrets import ComparedSecret

from ..account_kind import AccountKind, UnisegAccount, ask, refused
from ..adapter import UnisegAdapter
from ..bridge import CannotSend
from ..editing_adapter import EditingUnisegAdapter
from ..piece_reader import PieceReader
from ..platform import Platform

_MARKUP = re.compile(r"<(?=/?(?:at|b|i|u|s|a)\b)")
_REFUSED = re.compile(r"unexpected status code: 4(?!29)\d\d")
_RECALLED = "im.message.recalled_v1"


EDIT_EVERY_S = 3.0
"""Minimum seconds between two edits. Feishu accepts 20 edits of a message, so it can grow for a
minute; further words become another message."""


class Feishu(Platform):
    """Feishu's groups and private chats."""

    name = "feishu"
    title = "Feishu"
    stock = Adapter
    capabilities = Capabilities(
        inline=frozenset({Text, Mention, Reply, Image}),
        alone=frozenset({Voice, Video, File}),
        edit_every_s=EDIT_EVERY_S,
        picture=PictureLimits(),
        file_bytes=10 * 1024 * 1024,
        markdown=True,
    )
    # The library uniseg uploads voices and videos with a wrong type, and Feishu refuses to send
    # them.
    nearest = {Voice: File, Video: File}  # noqa: RUF012 - never changed

    def user_of(self, bot: BaseBot) -> str:
        """Return the bot's ``open_id``, which is its id in events. `Bot.self_id` is its
        ``app_id``."""
        assert isinstance(bot, Bot)
        return bot.bot_info.open_id

    def is_message(self, event: BaseEvent) -> bool:
        """Return True if the event is a message that a person wrote."""
        return isinstance(event, MessageEvent)

    def place(self, event: BaseEvent, bot: BaseBot) -> Target | None:
        """Return the chat of an event. Uniseg finds the chat only for messages, not for notices."""
        if isinstance(event, MessageEvent) or not isinstance(event, Event):
            return super().place(event, bot)
        chat = _field(event, "chat_id")
        return Target(chat) if chat else None

    async def segments(self, event: BaseEvent, bot: BaseBot, reader: PieceReader) -> Segments:
        """Convert the message. A ``post`` is parsed here, because uniseg returns it as a card."""
        assert isinstance(event, MessageEvent)
        said = event.event.message
        if said.message_type != "post":
            return await super().segments(event, bot, reader)
        people = {each.key: (each.id.open_id, each.name) for each in said.mentions or ()}
        read = await reader.read(list(_of_post(json.loads(said.content), people)))
        reply = self.quoted(event)
        return read if reply is None else (await reader.quoted(reply), *read)

    def quoted(self, event: BaseEvent) -> Reply | None:
        """Return the answered message. Feishu gives only its id."""
        assert isinstance(event, MessageEvent)
        parent = event.event.message.parent_id
        return Reply(parent) if parent else None

    def sender(self, event: BaseEvent) -> Sender:
        """Return the author without a name, because Feishu's messages contain no names."""
        return Sender(event.get_user_id())

    def time(self, event: BaseEvent) -> float | None:
        """Return the time that the server gives the event. Feishu writes it in milliseconds."""
        return int(event.header.create_time) / 1000 if isinstance(event, Event) else None

    def notice(self, event: BaseEvent) -> Notice | None:
        """Return the notice for a person who joined or left. If several people did so at once, only
        the first is named."""
        match event:
            case GroupMemberUserAddedEvent():
                kind = "join"
            case GroupMemberUserDeletedEvent() | GroupMemberUserWithdrawnEvent():
                kind = "leave"
            case _:
                return None
        users = event.event.users
        actor = event.event.operator_id.open_id
        return Notice(kind, actor, users[0].user_id.open_id, users[0].name) if users else None

    def recalled(self, event: BaseEvent) -> str:
        """Return the id of the recalled message."""
        ours = isinstance(event, Event) and event.header.event_type == _RECALLED
        return _field(event, "message_id") if ours else ""

    async def download(self, bot: BaseBot, event: BaseEvent, piece: Any) -> str | bytes:
        """Download a medium of a message with the medium's key. Uniseg puts the key of a voice into
        the address field."""
        assert isinstance(bot, Bot)
        assert isinstance(event, MessageEvent)
        key = piece.id or (piece.url or "").removeprefix("https://")
        image = isinstance(piece, uniseg.Image)
        data = await bot.get_msg_resource(event.message_id, key, "image" if image else "file")
        if isinstance(data, bytes):
            return data
        raise LookupError(f"Feishu answered {data!r} instead of the medium")

    def text(self, text: str) -> uniseg.Segment:
        """Insert an invisible character where Feishu would read markup. Otherwise a text could
        mention people."""
        return uniseg.Text(_MARKUP.sub("<\u200b", text))

    def markdown(self, text: str) -> uniseg.Segment:
        """Write the text as a ``post``, whose parts have styles."""
        parts = styled_text(text)
        if len(parts) == 1 and not (parts[0].styles or parts[0].link):
            return self.text(text)
        return uniseg.Other(MessageSegment.post("", _post_lines(parts)))

    def arrange_pieces(self, pieces: list[uniseg.Segment]) -> list[uniseg.Segment]:
        """Add a space to a message that is only a mention, because Feishu would refuse it."""
        seen = [piece for piece in pieces if not isinstance(piece, uniseg.Reply)]
        lonely = len(seen) == 1 and isinstance(seen[0], uniseg.At | uniseg.AtAll)
        return [*pieces, uniseg.Text(" ")] if lonely else pieces

    def refused(self, error: Exception) -> bool:
        """Return True if the error's text has an HTTP status that means a refusal: 4xx except 429.
        NoneBot's adapter raises a network error for every status."""
        return bool(_REFUSED.search(str(error) + repr(error)))

    def sent_id(self, result: Any) -> str:
        """Return the message's id. Raises `CannotSend` for an answer with an error code, because
        NoneBot's adapter treats such an answer as a success."""
        if isinstance(result, Mapping) and result.get("code"):
            raise CannotSend(
                f"Feishu refused the message: {result.get('msg')} (code {result['code']})"
            )
        data = result.get("data") if isinstance(result, Mapping) else None
        return super().sent_id(data)


def _field(event: BaseEvent, name: str) -> str:
    detail = getattr(event, "event", None)
    value = detail.get(name) if isinstance(detail, Mapping) else getattr(detail, name, None)
    return value if isinstance(value, str) else ""


_POST_STYLES = {
    TextStyle.BOLD: "bold",
    TextStyle.HEADING: "bold",
    TextStyle.ITALIC: "italic",
}


def _post_lines(parts: Sequence[StyledPart]) -> list[list[dict[str, Any]]]:
    """Write the parts of a text as the lines of a ``post``."""
    lines: list[list[dict[str, Any]]] = [[]]
    for part in parts:
        if TextStyle.BLOCK in part.styles:
            code = {"tag": "code_block", "language": part.language.upper(), "text": part.text}
            # A block of code has its own lines, so the line breaks around it are not written.
            lines[-1:] = [[code]] if not lines[-1] else [lines[-1], [code]]
            continue
        styles = sorted({_POST_STYLES[each] for each in part.styles if each in _POST_STYLES})
        for position, words in enumerate(part.text.split("\n")):
            if position or (lines[-1] and lines[-1][-1]["tag"] == "code_block" and words):
                lines.append([])
            if not words:
                continue
            if part.link:
                lines[-1].append({"tag": "a", "text": words, "href": part.link, "style": styles})
            else:
                lines[-1].append({"tag": "text", "text": words, "style": styles})
    return [line or [{"tag": "text", "text": ""}] for line in _without_empty_ends(lines)]


def _without_empty_ends(lines: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    filled = [position for position, line in enumerate(lines) if line]
    return lines[filled[0] : filled[-1] + 1] if filled else []


def _of_post(
    post: Mapping[str, Any], people: Mapping[str, tuple[str, str]]
) -> Iterator[uniseg.Segment]:
    """Yield the pieces of a rich text, with a line break between paragraphs."""
    if title := post.get("title"):
        yield uniseg.Text(f"{title}\n")
    for number, paragraph in enumerate(post.get("content") or ()):
        if number:
            yield uniseg.Text("\n")
        for part in paragraph:
            yield _of_part(part, people)


def _of_part(part: Mapping[str, Any], people: Mapping[str, tuple[str, str]]) -> uniseg.Segment:
    match part:
        case {"tag": "img", "image_key": key}:
            return uniseg.Image(id=str(key))
        case {"tag": "media", "file_key": key}:
            return uniseg.Video(id=str(key))
        case {"tag": "at", "user_id": "all" | "@_all"}:
            return uniseg.AtAll()
        case {"tag": "at", "user_id": user}:
            known, name = people.get(str(user), (str(user), str(part.get("user_name") or "")))
            return uniseg.At("user", known, name or None)
        case {"tag": "a", "href": address}:
            return uniseg.Text(f"{part.get('text') or ''} ({address})")
        case {"tag": "hr"}:
            return uniseg.Text("\n")
    return uniseg.Text(str(part.get("text") or part.get("emoji_type") or ""))


class FeishuAccount(UnisegAccount):
    """A Feishu or Lark application with a bot."""

    app_id: str = Field(title="App id", description="Such as cli_a1b2c3.", min_length=1)
    app_secret: SecretStr = Field(
        title="App secret", description="The application's secret.", min_length=1
    )
    is_lark: bool = Field(
        default=False, title="Lark", description="Whether it is Lark, Feishu outside of China."
    )

    @property
    def key(self) -> str:
        """The app id."""
        return self.app_id

    @property
    def base(self) -> str:
        """The address of the platform's API."""
        config = Config.model_validate({})
        return str(config.feishu_lark_api_base if self.is_lark else config.feishu_api_base)

    def entry(self) -> dict[str, Any]:
        """See `UnisegAccount.entry`. The bot uses a WebSocket, which needs no verification
        token."""
        return {
            "app_id": self.app_id,
            "app_secret": self.app_secret.get_secret_value(),
            "verification_token": "",
            "is_lark": self.is_lark,
            "protocol": "ws",
        }


async def _check(account: FeishuAccount, proxy: str | None) -> str:
    _, answer = await ask(
        "POST",
        f"{account.base.rstrip('/')}/open-apis/auth/v3/tenant_access_token/internal",
        body={"app_id": account.app_id, "app_secret": account.app_secret.get_secret_value()},
        proxy=proxy,
    )
    if answer.get("code") != 0:
        raise refused(f"Feishu refuses the app id or secret: {answer.get('msg')}")
    return f"Feishu accepts the application {account.app_id}"


ACCOUNTS = AccountKind(
    model=FeishuAccount,
    setting="feishu_bots",
    check=_check,
    hint="In Feishu's developer console, choose the long connection (WebSocket) for events, and "
    "subscribe to im.message.receive_v1. Nothing must reach the bot from outside.",
)


class FeishuAdapter(EditingUnisegAdapter):
    """`EditingUnisegAdapter` for Feishu. An edit does not change which message is answered."""

    async def _edit(self, message_id: str, delivery: Delivery, bot: BaseBot) -> None:
        assert isinstance(bot, Bot)
        said = (each for each in delivery.segments if not isinstance(each, Reply))
        message = await self._new_text(said, delivery, bot)
        kind, content = message.serialize()
        answer = await bot.edit_msg(message_id, content=content, msg_type=kind)
        self._platform.sent_id(answer)  # raises `CannotSend` if Feishu refuses the edit


def create(host: Host, driver: Driver) -> UnisegAdapter:
    """Make the adapter. Raises `ValueError` if the settings are invalid."""
    adapter = FeishuAdapter(host, driver, Feishu(), ACCOUNTS)
    for each in adapter.stock.feishu_config.feishu_bots:
        each.verification_token = ComparedSecret(each.verification_token)
    return adapter
