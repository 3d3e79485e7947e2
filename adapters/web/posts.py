"""Checks posted messages and hands them to the host. The messages of a room stay in order."""

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable

from pydantic import BaseModel, ConfigDict, Field

from nekro_core.api.adapter import Host, KeyedLimiter
from nekro_core.api.chat import (
    Author,
    ChatKey,
    ChatKind,
    ChatMessage,
    File,
    Image,
    Mention,
    Record,
    Reply,
    Segment,
    Sender,
    Text,
    Video,
    Voice,
    plain_text,
)
from nekro_core.api.console import WebApiError

from .attachments import Attachment, Upload, decoded, segment_of
from .mentions import Mentions, mentions_bot
from .rooms import BOT_ID, valid_speaker
from .settings import MAX_ATTACHMENTS, MAX_MEDIUM_BYTES, MAX_TEXT

Clock = Callable[[], float]
"""Returns the time in seconds since 1970."""

NEAR = 50
"""Number of newest records that are searched first, because a message is nearly always there."""
SEARCHED = 1000
"""A message that is answered or repeated is searched in at most this number of newest records."""


class Post(BaseModel):
    """The body of ``POST /api/v1/rooms/{room}/messages``."""

    model_config = ConfigDict(extra="forbid")

    speaker: str
    text: str = Field("", max_length=MAX_TEXT)
    to_bot: bool = False
    """If true, a mention of the bot is put first if the text has none."""
    reply_to: str = Field("", max_length=128)
    attachments: tuple[Attachment, ...] = Field((), max_length=MAX_ATTACHMENTS)


class PostHandler:
    """Converts posts to messages. The posts of a room are processed one after another, so that a
    text is not stored before an earlier picture whose storing takes longer."""

    def __init__(self, host: Host, bot_name: str, clock: Clock) -> None:
        self._host = host
        self._mentions = Mentions(bot_name)
        self._clock = clock
        self._in_order = KeyedLimiter(1)

    async def post(
        self, key: ChatKey, post: Post, uploads: Iterable[Upload] = (), repeat_key: str = ""
    ) -> Record:
        """Store the message and return its record.

        If a message with the same ``repeat_key`` is stored in the room, its record is returned
        instead. Raises `WebApiError`.
        """
        speaker = valid_speaker(post.speaker)
        if key.kind is ChatKind.PRIVATE and speaker != key.native_id:
            raise WebApiError(
                422,
                "speaker",
                f"only {key.native_id!r} writes in this private room, not {speaker!r}",
            )
        files = [*map(decoded, post.attachments), *uploads]
        if len(files) > MAX_ATTACHMENTS:
            raise WebApiError(
                422, "attachments", f"at most {MAX_ATTACHMENTS} attachments a message"
            )
        if not files and not post.text.strip():
            raise WebApiError(422, "empty", "nothing to say: send a text or an attachment")
        message_id = _message_id(key, repeat_key) if repeat_key else f"w{secrets.token_hex(12)}"
        async with self._in_order.of(key):
            return await self._store(
                key, post, files, message_id, speaker, repeated=bool(repeat_key)
            )

    async def _store(
        self,
        key: ChatKey,
        post: Post,
        given: list[Upload],
        message_id: str,
        speaker: str,
        *,
        repeated: bool,
    ) -> Record:
        history = await self._host.records(key) if "@" in post.text else []
        words = self._mentions.read(
            post.text.replace("\0", "\ufffd"),  # PostgreSQL refuses NUL
            self._mentions.people(history),
            to_bot=post.to_bot and key.kind is ChatKind.GROUP,
        )
        earlier = await self._find(key, message_id) if repeated else None
        if earlier is not None:
            if not _same(earlier, speaker, words, given):
                raise WebApiError(
                    422, "idempotency_key", "this Idempotency-Key was used for another message"
                )
            return earlier
        answered = await self._find(key, post.reply_to)
        if post.reply_to and answered is None:
            raise WebApiError(
                422, "reply_to", f"no message {post.reply_to!r} in this room's recent history"
            )
        media = [await self._store_upload(key, upload) for upload in given]
        reply = [_reply(answered)] if answered else []
        await self._host.accept(
            ChatMessage(
                chat_key=key,
                message_id=message_id,
                sender=Sender(speaker, speaker),
                segments=(*reply, *words, *media),
                time=self._clock(),
                account=BOT_ID,
                to_bot=key.kind is ChatKind.PRIVATE
                or mentions_bot(words)
                or (answered is not None and answered.author is Author.BOT),
            )
        )
        record = await self._find(key, message_id)
        if record is None:  # the inbox refused a repetition of an old message
            raise WebApiError(409, "idempotency_key", "this message was stored long ago")
        return record

    async def _find(self, key: ChatKey, message_id: str) -> Record | None:
        if not message_id:
            return None
        for limit in (NEAR, SEARCHED):
            records = await self._host.records(key, limit=limit)
            for record in records:
                if record.message_id == message_id:
                    return record
            if len(records) < limit:
                break
        return None

    async def _store_upload(self, key: ChatKey, upload: Upload) -> Segment:
        if len(upload.data) > MAX_MEDIUM_BYTES:
            raise WebApiError(
                413,
                "attachment",
                f"{upload.name!r} has {len(upload.data)} bytes, at most {MAX_MEDIUM_BYTES}",
            )
        media = await self._host.media.keep_bytes(key, upload.data, name=upload.name)
        if media.problem:
            raise WebApiError(422, "attachment", f"{upload.name or 'attachment'}: {media.problem}")
        return segment_of(media)


def repeat_key(text: str) -> str:
    """Check the value of an ``Idempotency-Key`` header. Raises `WebApiError`."""
    if text and not re.fullmatch(r"[\x21-\x7e]{1,200}", text):
        raise WebApiError(
            400, "idempotency_key", "Idempotency-Key: expected 1 to 200 visible ASCII characters"
        )
    return text


def new_message_id() -> str:
    """Make an id for a message of the bot."""
    return f"b{secrets.token_hex(12)}"


def _message_id(key: ChatKey, repeat: str) -> str:
    # The id is made from the repeat key, so the inbox refuses a repetition, even after a restart.
    return "k" + hashlib.sha256(f"{key}\0{repeat}".encode()).hexdigest()[:24]


def _reply(answered: Record) -> Reply:
    speaker = BOT_ID if answered.author is Author.BOT else answered.sender.user_id
    return Reply(answered.message_id, speaker, plain_text(answered.segments)[:500])


def _same(earlier: Record, speaker: str, words: list[Segment], given: list[Upload]) -> bool:
    said = [part for part in earlier.segments if isinstance(part, Text | Mention)]
    media = sum(isinstance(part, Image | Voice | Video | File) for part in earlier.segments)
    return (
        earlier.sender.user_id == speaker
        and _letters(said) == _letters(words)
        and media == len(given)
    )


def _letters(words: Iterable[Segment]) -> str:
    # "@lin" is a mention only if Lin has written in the room by then. A mention changes blanks and
    # case, so both are ignored here.
    return "".join(plain_text(words).split()).casefold()
