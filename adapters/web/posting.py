"""A posted message: read from the request, checked, and handed to the bot in order."""

import base64
import binascii
import hashlib
import re
import secrets
import weakref
from collections.abc import Iterable

import anyio
from pydantic import BaseModel, ConfigDict, Field

from nekro_core.api.adapter import Host
from nekro_core.api.chat import (
    Author,
    ChatKey,
    ChatKind,
    ChatMessage,
    File,
    Image,
    Media,
    Mention,
    Record,
    Reply,
    Segment,
    Segments,
    Sender,
    Text,
    Video,
    Voice,
    plain_text,
)

from .door import Clock
from .refusal import Refused
from .rooms import BOT_ID, valid_speaker
from .settings import MAX_ATTACHMENTS, MAX_MEDIUM_BYTES, MAX_TEXT

SEARCHED = 1000
"""Newest records in which the answered or repeated message is looked for."""


class Attachment(BaseModel):
    """A picture or file as a script sends it."""

    model_config = ConfigDict(extra="forbid")

    data: str
    """Its bytes as base64."""
    name: str = Field("", max_length=255)


class Post(BaseModel):
    """The body of ``POST /api/v1/rooms/{room}/messages``."""

    model_config = ConfigDict(extra="forbid")

    speaker: str
    text: str = Field("", max_length=MAX_TEXT)
    to_bot: bool = False
    """Mention the bot in front, unless the text does."""
    reply_to: str = Field("", max_length=128)
    attachments: tuple[Attachment, ...] = Field((), max_length=MAX_ATTACHMENTS)


class Upload(BaseModel):
    """An attachment's bytes, however they came."""

    data: bytes
    name: str


class Poster:
    """Turns posts into messages. One post of a room is taken after the other, so that a text sent
    after a picture does not overtake it while the picture is being stored."""

    def __init__(self, host: Host, bot_name: str, clock: Clock) -> None:
        self._host = host
        self._bot_name = bot_name
        self._clock = clock
        self._locks: weakref.WeakValueDictionary[ChatKey, anyio.Lock] = (
            weakref.WeakValueDictionary()
        )

    async def post(
        self, key: ChatKey, post: Post, uploads: Iterable[Upload] = (), repeat_key: str = ""
    ) -> Record:
        """Store the message and return its record.

        The same ``repeat_key`` in the same room is the same message. Raises `Refused`.
        """
        speaker = valid_speaker(post.speaker)
        if key.kind is ChatKind.PRIVATE and speaker != key.native_id:
            raise Refused(
                422, "speaker", f"in this private room {key.native_id!r} talks, not {speaker!r}"
            )
        given = [*map(_decoded, post.attachments), *uploads]
        if len(given) > MAX_ATTACHMENTS:
            raise Refused(422, "attachments", f"at most {MAX_ATTACHMENTS} attachments a message")
        if not given and not post.text.strip():
            raise Refused(422, "empty", "nothing to say: send a text or an attachment")
        message_id = _message_id(key, repeat_key) if repeat_key else f"w{secrets.token_hex(12)}"
        lock = self._locks.setdefault(key, anyio.Lock())
        async with lock:
            return await self._store(key, post, given, message_id, speaker)

    async def _store(
        self, key: ChatKey, post: Post, given: list[Upload], message_id: str, speaker: str
    ) -> Record:
        history = await self._host.records(key, limit=SEARCHED)
        answered = _named(history, post.reply_to)
        if post.reply_to and answered is None:
            raise Refused(
                422, "reply_to", f"no message {post.reply_to!r} in this room's recent history"
            )
        words = self._words(key, post, history)
        earlier = _named(history, message_id)
        if earlier is None:
            media = [await self._kept(key, upload) for upload in given]
            reply = [_reply(answered)] if answered else []
            segments: Segments = (*reply, *words, *media)
            await self._host.accept(
                ChatMessage(
                    chat_key=key,
                    message_id=message_id,
                    sender=Sender(speaker, speaker),
                    segments=segments,
                    time=self._clock(),
                    account=BOT_ID,
                    to_bot=key.kind is ChatKind.PRIVATE
                    or any(isinstance(s, Mention) and s.user_id == BOT_ID for s in words)
                    or (answered is not None and answered.author is Author.BOT),
                )
            )
            earlier = _named(await self._host.records(key, limit=SEARCHED), message_id)
        elif not _same(earlier, speaker, words, given):
            raise Refused(
                422, "idempotency_key", "this Idempotency-Key was used for another message"
            )
        if earlier is None:  # known to the inbox, but no longer among the newest
            raise Refused(409, "idempotency_key", "this message was taken long ago")
        return earlier

    def _words(self, key: ChatKey, post: Post, history: Iterable[Record]) -> list[Segment]:
        """The text with its mentions found. Only names of this room mean somebody."""
        people = {BOT_ID.casefold(): BOT_ID, self._bot_name.casefold(): BOT_ID}
        for record in history:
            if record.author is Author.PERSON:
                people.setdefault(record.sender.user_id.casefold(), record.sender.user_id)
        names = "|".join(map(re.escape, sorted(people, key=len, reverse=True)))
        found: list[Segment] = []
        # PostgreSQL refuses NUL, and nobody means it.
        text = post.text.replace("\0", "\ufffd")
        at = 0
        mention = rf"(?<![A-Za-z0-9_])@({names})(?![A-Za-z0-9_]) ?"
        for match in re.finditer(mention, text, re.IGNORECASE):
            user_id = people.get(match[1].casefold())
            if user_id is None:
                continue
            found += [Text(text[at : match.start()])] if match.start() > at else []
            found.append(self._mention(user_id))
            at = match.end()
        found += [Text(text[at:])] if text[at:] else []
        meant = any(isinstance(part, Mention) and part.user_id == BOT_ID for part in found)
        if post.to_bot and key.kind is ChatKind.GROUP and not meant:
            found.insert(0, self._mention(BOT_ID))
        return found

    def _mention(self, user_id: str) -> Mention:
        return Mention(user_id, self._bot_name if user_id == BOT_ID else user_id)

    async def _kept(self, key: ChatKey, upload: Upload) -> Segment:
        if len(upload.data) > MAX_MEDIUM_BYTES:
            raise Refused(
                413,
                "attachment",
                f"{upload.name!r} has {len(upload.data)} bytes, at most {MAX_MEDIUM_BYTES}",
            )
        media = await self._host.media.keep_bytes(key, upload.data, name=upload.name)
        if media.problem:
            raise Refused(422, "attachment", f"{upload.name or 'attachment'}: {media.problem}")
        return _segment(media)


def repeat_key(text: str) -> str:
    """The value of an ``Idempotency-Key`` header. Raises `Refused` where it cannot be one."""
    if text and not re.fullmatch(r"[\x21-\x7e]{1,200}", text):
        raise Refused(
            400, "idempotency_key", "Idempotency-Key: expected 1 to 200 visible ASCII characters"
        )
    return text


def uploaded_name(text: str) -> str:
    """A file's name as people may see it: the last part, without what cannot be shown."""
    last = re.split(r"[/\\]", text)[-1]
    shown = "".join(character for character in last if character.isprintable())
    return shown[:255] if shown.strip(". ") else ""


def new_message_id() -> str:
    """An id for a message of the bot's own."""
    return f"b{secrets.token_hex(12)}"


def _message_id(key: ChatKey, repeat: str) -> str:
    # Made from the key, so the inbox's own de-duplication holds, also over a restart.
    return "k" + hashlib.sha256(f"{key}\0{repeat}".encode()).hexdigest()[:24]


def _decoded(attachment: Attachment) -> Upload:
    try:
        data = base64.b64decode(attachment.data, validate=True)
    except (binascii.Error, ValueError):
        raise Refused(422, "attachment", "an attachment's 'data' is not base64") from None
    return Upload(data=data, name=uploaded_name(attachment.name))


def _segment(media: Media) -> Segment:
    match media.mime.partition("/")[0]:
        case "image" if media.mime != "image/svg+xml":
            return Image(media)
        case "audio":
            return Voice(media)
        case "video":
            return Video(media)
        case _:
            return File(media)


def _reply(answered: Record) -> Reply:
    speaker = BOT_ID if answered.author is Author.BOT else answered.sender.user_id
    return Reply(answered.message_id, speaker, plain_text(answered.segments)[:500])


def _named(history: Iterable[Record], message_id: str) -> Record | None:
    if not message_id:
        return None
    return next((record for record in history if record.message_id == message_id), None)


def _same(earlier: Record, speaker: str, words: list[Segment], given: list[Upload]) -> bool:
    media = sum(isinstance(part, Image | Voice | Video | File) for part in earlier.segments)
    return (
        earlier.sender.user_id == speaker
        and plain_text(part for part in earlier.segments if isinstance(part, Text | Mention))
        == plain_text(words)
        and media == len(given)
    )
