"""Converts a message of the Bot API into uniseg's pieces. Uniseg's builder is not used, because it
leaves out the text of links, file names, the person behind ``@name``, forwards, and all types of
content for which it has no piece."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nonebot_plugin_alconna import uniseg

from nekro_core.api.adapter import ContactRequestKind
from nekro_core.api.chat import Notice, Reply, Role, Sender, Unknown

from ...contact_requests import PlatformRequest

Json = dict[str, Any]

MESSAGES = ("message", "channel_post", "business_message")
EDITS = ("edited_message", "edited_channel_post", "edited_business_message")
MEMBERS = ("my_chat_member", "chat_member")
SAID = (
    "text", "photo", "voice", "audio", "document", "video", "animation", "video_note", "sticker",
    "dice", "poll", "location", "venue", "contact", "story", "game", "invoice", "paid_media",
    "checklist", "giveaway",
)  # fmt: skip
_THERE = ("creator", "administrator", "member", "restricted")
_LEFT = ("left", "kicked")


def message_in(update: Json) -> Json | None:
    """Return the message of an update; None if it has no content, as for example a service
    message."""
    message = _first(update, MESSAGES)
    return message if message is not None and any(kind in message for kind in SAID) else None


def changed_in(update: Json) -> Json | None:
    """Return the new version of an edited message; None if the update is not an edit."""
    return _first(update, EDITS)


def happened(update: Json) -> Json | None:
    """Return the message, edited message or member change of an update; None for other updates."""
    return _first(update, (*MESSAGES, *EDITS, *MEMBERS))


def _first(update: Json, kinds: Iterable[str]) -> Json | None:
    return next((update[kind] for kind in kinds if isinstance(update.get(kind), dict)), None)


def thread_of(message: Json) -> str | None:
    """Return the id of the forum topic; None outside a topic. A reply in an ordinary group has a
    thread id too, which is ignored."""
    if not message.get("is_topic_message"):
        return None
    return str(message["message_thread_id"])


def sender_of(message: Json) -> Sender:
    """Return the author. For an anonymous administrator, this is the group."""
    chat = message.get("sender_chat")
    if isinstance(chat, dict):
        role = Role.ADMIN if chat["id"] == message["chat"]["id"] else Role.MEMBER
        signature = message.get("author_signature")
        return Sender(str(chat["id"]), str(signature or chat.get("title") or ""), role)
    return Sender(*person_of(message.get("from") or {}))


def notice_of(update: Json) -> Notice | None:
    """Return the notice for a person who joined or left; None for other updates."""
    for kind in MEMBERS:
        if isinstance(change := update.get(kind), dict):
            was = change["old_chat_member"]["status"] in _THERE
            now, member = change["new_chat_member"], change["new_chat_member"]["user"]
            if was == (now["status"] in _THERE) or kind == "chat_member":
                # The changes of other members are read from the group's service message.
                return None
            actor, target = str(change["from"]["id"]), str(member["id"])
            return Notice("leave" if now["status"] in _LEFT else "join", actor, target)
    message = happened(update)
    if message is None:
        return None
    actor = str(message.get("from", {}).get("id", ""))
    came = message.get("new_chat_members") or ()
    left = message.get("left_chat_member")
    if came:
        return Notice("join", actor, str(came[0]["id"]))
    return Notice("leave", actor, str(left["id"])) if left else None


def request_in(update: Json) -> PlatformRequest | None:
    """Return the request to join a group or channel; None for other updates. Telegram gives the
    request no id, so the handle contains the time: the same person may ask again."""
    asked = update.get("chat_join_request")
    if not isinstance(asked, dict):
        return None
    user_id, name = person_of(asked["from"])
    chat = str(asked["chat"]["id"])
    return PlatformRequest(
        kind=ContactRequestKind.GROUP_JOIN,
        user_id=user_id,
        user_name=name,
        handle=f"{chat}:{user_id}:{asked['date']}",
        group_id=chat,
        text=str(asked.get("bio") or ""),
        time=float(asked["date"]),
    )


def quoted_in(message: Json) -> Reply | None:
    """Return the message that this message replies to; None if it is no reply. In a topic, each
    message formally replies to the message that created the topic. Such a reply is ignored."""
    quoted = message.get("reply_to_message")
    if not isinstance(quoted, dict) or "forum_topic_created" in quoted:
        return None
    picked = message.get("quote")
    text = picked.get("text") if isinstance(picked, dict) else None
    text = text or quoted.get("text") or quoted.get("caption") or _kind_of(quoted)
    return Reply(str(quoted["message_id"]), sender_of(quoted).user_id, str(text))


@dataclass(frozen=True, slots=True)
class Origin:
    """The author and time of a forwarded message."""

    sender_id: str
    name: str
    time: float


def origin_of(message: Json) -> Origin | None:
    """Return the original author and time of a forwarded message; None for other messages."""
    origin = message.get("forward_origin")
    if not isinstance(origin, dict):
        return None
    time = float(origin.get("date") or 0)
    if isinstance(user := origin.get("sender_user"), dict):
        return Origin(*person_of(user), time)
    chat = origin.get("sender_chat") or origin.get("chat")
    if isinstance(chat, dict):
        return Origin(str(chat["id"]), str(chat.get("title") or ""), time)
    return Origin("", str(origin.get("sender_user_name") or ""), time)


def pieces_of(message: Json, account: str, username: str) -> list[uniseg.Segment]:
    """Return the medium, then the text, in the order in which Telegram shows them. A mention of the
    bot's ``username`` becomes a mention of ``account``."""
    medium = _medium(message)
    words = words_of(message, account, username)
    return words if medium is None else [medium, *words]


def words_of(message: Json, account: str, username: str) -> list[uniseg.Segment]:
    """Return the text or caption of a message as pieces."""
    kind = "text" if "text" in message else "caption"
    entities = message.get("entities" if kind == "text" else "caption_entities") or []
    pieces = _words(str(message.get(kind) or ""), entities, account, username)
    return [piece for piece in pieces if not isinstance(piece, uniseg.Text) or piece.text]


def unnamed_in(message: Json) -> Unknown:
    """Describe a message whose type has no segment."""
    return Unknown(_kind_of(message), _described(message))


def _kind_of(message: Json) -> str:
    return next((kind for kind in SAID if kind in message), "message")


def _described(message: Json) -> str:
    match message:
        case {"dice": {"emoji": emoji, "value": value}}:
            return f"{emoji} {value}"
        case {"poll": {"question": question, "options": options}}:
            return f"{question} ({' / '.join(str(option.get('text')) for option in options)})"
        case {"venue": {"title": title, "address": address}}:
            return f"{title}, {address}"
        case {"location": {"latitude": latitude, "longitude": longitude}}:
            return f"{latitude}, {longitude}"
        case {"contact": {"first_name": name, "phone_number": number}}:
            return f"{name} {number}"
        case {"sticker": sticker}:
            return str(sticker.get("emoji") or "")
    return ""


_FORMS: Mapping[str, Callable[..., uniseg.Segment]] = {
    "voice": uniseg.Voice,
    "audio": uniseg.Audio,
    "animation": uniseg.Video,
    "video": uniseg.Video,
    "video_note": uniseg.Video,
    "document": uniseg.File,
}
"""Maps fields of a message to piece types. ``animation`` must come before ``document``, because an
animation has both fields."""


def _medium(message: Json) -> uniseg.Segment | None:
    match message:
        case {"photo": [*_, {"file_id": str(identity)}]}:
            return uniseg.Image(id=identity)
        case {"sticker": {"is_animated": False, "is_video": False, "file_id": str(identity)}}:
            return uniseg.Image(id=identity, sticker=True)
    for kind, form in _FORMS.items():
        if isinstance(medium := message.get(kind), dict):
            name = medium.get("file_name")
            return form(id=str(medium["file_id"]), **({"name": str(name)} if name else {}))
    return None


def _words(
    text: str, entities: list[Json], account: str, username: str
) -> Iterator[uniseg.Segment]:
    """Split a text at its entities (marked parts, such as a link). Their offsets are in UTF-16 code
    units. Entities may be nested, but those that become pieces do not overlap."""
    wide, done = text.encode("utf-16-le", "surrogatepass"), 0
    for entity in sorted(entities, key=lambda found: int(found["offset"])):
        begin, end = int(entity["offset"]), int(entity["offset"]) + int(entity["length"])
        if begin < done:
            continue
        words = _part(wide, begin, end)
        piece = _entity(entity, words, account, username)
        if piece is not None:
            yield uniseg.Text(_part(wide, done, begin))
            yield from piece
            done = end
    yield uniseg.Text(_part(wide, done, len(wide) // 2))


def _entity(
    entity: Json, words: str, account: str, username: str
) -> tuple[uniseg.Segment, ...] | None:
    own_mention = f"@{username}".casefold()
    match entity:
        case {"type": "mention"}:
            name = words.removeprefix("@")
            return (uniseg.At("user", account if words.casefold() == own_mention else words, name),)
        case {"type": "text_mention", "user": dict(user)}:
            return (uniseg.At("user", *person_of(user)),)
        case {"type": "text_link", "url": url} if url != words:
            return (uniseg.Text(f"{words} ({url})"),)
        case {"type": "bot_command"} if words.casefold().endswith(own_mention):
            # A group may have several bots, so this command names the bot, as in ``/stop@name``.
            return uniseg.At("user", account, username), uniseg.Text(words[: -len(own_mention)])
    return None


def _part(wide: bytes, begin: int, end: int) -> str:
    return wide[begin * 2 : end * 2].decode("utf-16-le", "replace")


def person_of(user: Json) -> tuple[str, str]:
    """Return a user's id and name."""
    names = (user.get("first_name"), user.get("last_name"))
    name = " ".join(str(name) for name in names if name)
    return str(user.get("id", "")), name or str(user.get("username") or "")
