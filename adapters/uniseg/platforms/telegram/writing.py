"""Writes a delivery as one call of the Bot API."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nekro_core.api.adapter import (
    Capabilities,
    PictureLimits,
    TextStyle,
    VoiceLimits,
    styled_text,
)
from nekro_core.api.chat import (
    EVERYONE,
    ChatKey,
    Delivery,
    File,
    Image,
    Media,
    Mention,
    Reply,
    Segments,
    Text,
    Video,
    Voice,
)

from ...bridge import CannotSend
from ...piece_writer import bytes_of
from ...values import native_message_id
from .calls import Json, Upload

UPLOAD_BYTES = 50 * 1024 * 1024
"""Maximum number of bytes of a file that a bot may upload."""
EDIT_EVERY_S = 3.0
"""Minimum seconds between two edits. Telegram accepts about 20 messages and edits in a minute for a
group."""
TYPING_S = 5.0
"""Telegram shows that a bot is typing for so many seconds, or until its next message."""
GIF = "image/gif"


def units(text: str) -> int:
    """Return the length as Telegram counts it, in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


CAPABILITIES = Capabilities(
    inline=frozenset({Text, Mention, Reply, Image}),
    alone=frozenset({Voice, Video, File}),
    text_length=4096,
    caption_length=1024,
    measure=units,
    images_per_call=10,
    edit_every_s=EDIT_EVERY_S,
    typing_s=TYPING_S,
    reactions=True,
    voice=VoiceLimits(formats=("ogg", "mp3", "m4a"), max_bytes=UPLOAD_BYTES),
    picture=PictureLimits(
        types=("image/jpeg", "image/png", "image/webp", "image/gif"),
        max_bytes=10 * 1024 * 1024,
        max_sides=10_000,
    ),
    file_bytes=UPLOAD_BYTES,
    markdown=True,
)


@dataclass(frozen=True, slots=True)
class BotApiCall:
    """One call of the Bot API."""

    method: str
    params: Json
    files: dict[str, Upload] = field(default_factory=dict)


async def call_for(delivery: Delivery, names: Mapping[str, str]) -> BotApiCall:
    """Write a delivery as one call. ``names`` maps people's ids to names. Raises `CannotSend`."""
    params = {**_where(delivery.chat_key), **_answering(delivery.segments)}
    text, entities = text_and_entities(delivery.segments, names)
    match [s for s in delivery.segments if not isinstance(s, Text | Mention | Reply)]:
        case []:
            if not text:
                raise CannotSend("the message is empty")
            return BotApiCall(
                "sendMessage", {**params, "text": text, **_formed("entities", entities)}
            )
        case [Image(media)]:
            kind = "animation" if media.mime == GIF else "photo"
        case [Image(), *_] as shown if all(isinstance(each, Image) for each in shown):
            pictures = [each.media for each in shown if isinstance(each, Image)]
            return await _album(params, pictures, _caption(text, entities))
        case [Voice(media)]:
            kind = "voice"
        case [Video(media)]:
            kind = "video"
        case [File(media)]:
            kind = "document"
        case others:
            kinds = ", ".join(type(segment).__name__.lower() for segment in others)
            raise CannotSend(f"one message of Telegram cannot carry {kinds}")
    params |= {kind: "attach://0", **_caption(text, entities)}
    return BotApiCall(f"send{kind.capitalize()}", params, {"0": await _upload(media, kind)})


def edit_for(message_id: str, delivery: Delivery, names: Mapping[str, str]) -> BotApiCall:
    """Write the call that replaces a message's text by the text of the delivery. Raises
    `CannotSend`."""
    if any(not isinstance(segment, Text | Mention | Reply) for segment in delivery.segments):
        raise CannotSend("only the text of a message can be changed")
    text, entities = text_and_entities(delivery.segments, names)
    params = {"chat_id": _chat(delivery.chat_key), "message_id": _number(message_id), "text": text}
    return BotApiCall("editMessageText", params | _formed("entities", entities))


def typing_for(key: ChatKey) -> BotApiCall:
    """Write the call that shows that the bot is typing."""
    return BotApiCall("sendChatAction", {**_where(key), "action": "typing"})


def reaction_for(key: ChatKey, message_id: str, emoji: str) -> BotApiCall:
    """Write the call that sets the bot's only reaction to a message. Raises `CannotSend`."""
    reaction = [{"type": "emoji", "emoji": emoji}]
    params = {"chat_id": _chat(key), "message_id": _number(message_id), "reaction": reaction}
    return BotApiCall("setMessageReaction", params)


def text_and_entities(segments: Segments, names: Mapping[str, str]) -> tuple[str, list[Json]]:
    """Return the text and its entities: the data about styles and mentions in it. Telegram shows a
    mention as a link if it knows the person, else as plain text."""
    text = ""
    entities: list[Json] = []
    for segment in segments:
        match segment:
            case Text(words, markdown):
                words = (
                    words.lstrip(" ") if text.endswith(" ") else words if text else words.lstrip()
                )
                if markdown:
                    words, styled = _styled(words, units(text))
                    entities += styled
                text += words
            case Mention(user_id, name) if user_id.isdecimal():
                label = (name or names.get(user_id) or user_id).strip() or user_id
                user = {"id": int(user_id), "is_bot": False, "first_name": label}
                span = {"offset": units(text), "length": units(label)}
                entities.append({"type": "text_mention", **span, "user": user})
                text += f"{label} "
            case Mention(user_id, name):
                label = "@all" if user_id == EVERYONE else user_id
                text += f"{label if label.startswith('@') else name or label} "
    text = text.rstrip()
    return text, list(_within(entities, units(text)))


_STYLES = {
    TextStyle.BOLD: "bold",
    TextStyle.HEADING: "bold",
    TextStyle.ITALIC: "italic",
    TextStyle.CODE: "code",
}
_MOST_ENTITIES = 100
"""Maximum number of entities of one message. Telegram ignores further entities."""


def _styled(source: str, offset: int) -> tuple[str, list[Json]]:
    """Return a Markdown text without marks, and the entities for its styles. A text that would be
    too long without marks, because the columns of its tables are aligned, is returned as it is."""
    parts = styled_text(source)
    text = "".join(part.text for part in parts)
    if units(text) > max(units(source), CAPABILITIES.caption_length or 0):
        return source, []
    entities: list[Json] = []
    for part in parts:
        span = {"offset": offset, "length": units(part.text)}
        offset += span["length"]
        if TextStyle.BLOCK in part.styles:
            language = {"language": part.language} if part.language else {}
            entities.append({"type": "pre", **span, **language})
            continue
        names = {_STYLES[style] for style in part.styles}
        entities += [{"type": name, **span} for name in sorted(names)]
        if part.link:
            entities.append({"type": "text_link", **span, "url": part.link})
    return text, entities


def _within(entities: list[Json], length: int) -> Iterator[Json]:
    """Yield the entities that are inside of the text, which was shortened at its end."""
    for entity in entities[:_MOST_ENTITIES]:
        inside = min(entity["length"], length - entity["offset"])
        if inside > 0:
            yield {**entity, "length": inside}


async def _album(params: Json, pictures: list[Media], caption: Json) -> BotApiCall:
    files = {str(at): await _upload(media, "photo") for at, media in enumerate(pictures)}
    album: list[Json] = [{"type": "photo", "media": f"attach://{name}"} for name in files]
    album[0] |= caption
    return BotApiCall("sendMediaGroup", {**params, "media": album}, files)


async def _upload(media: Media, kind: str) -> Upload:
    return media.name or kind, await bytes_of(media, UPLOAD_BYTES), media.mime


def _where(key: ChatKey) -> Json:
    target: Json = {"chat_id": _chat(key)}
    return target if key.thread is None else {**target, "message_thread_id": _number(key.thread)}


def _chat(key: ChatKey) -> Any:
    # A public channel may be addressed by its @name.
    return key.native_id if key.native_id.startswith("@") else _number(key.native_id)


def _answering(segments: Segments) -> Json:
    reply = next((segment for segment in segments if isinstance(segment, Reply)), None)
    if reply is None or not native_message_id(reply.message_id).isdecimal():
        return {}
    # If the message was deleted in the meantime, the answer is sent to the chat all the same.
    parameters = {"message_id": _number(reply.message_id), "allow_sending_without_reply": True}
    return {"reply_parameters": parameters}


def _caption(text: str, entities: list[Json]) -> Json:
    return {"caption": text, **_formed("caption_entities", entities)} if text else {}


def _formed(name: str, entities: list[Json]) -> Json:
    return {name: entities} if entities else {}


def _number(text: str) -> int:
    try:
        return int(native_message_id(text))
    except ValueError:
        raise CannotSend(f"{text!r} is no id of Telegram: expected a number") from None
