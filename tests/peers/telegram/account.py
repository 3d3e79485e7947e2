"""Holds the state of the fake platform: chats, messages, files, updates, and the platform's
limits."""

import base64
import itertools
import json
import time
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

TEXT_UNITS = 4096
CAPTION_UNITS = 1024
CHAT_ACTIONS = ("typing", "upload_photo", "record_voice", "upload_voice", "upload_document")
REACTIONS = frozenset("👍👎❤🔥🥰👏😁🤔🤯😱🎉🤩🙏👌🕊🤡🥱🥴😍🐳💯🤣⚡🏆👀🫡✍🤗")
"""Some of the emoji of ``ReactionTypeEmoji``. Telegram refuses all others."""
MEDIA = ("photo", "voice", "audio", "document", "video", "animation")
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Refused(Exception):
    """The platform refuses a call."""

    def __init__(self, description: str, code: int = 400) -> None:
        super().__init__(description)
        self.code = code


@dataclass(frozen=True)
class Upload:
    """A file that was uploaded with a call."""

    name: str
    data: bytes
    mime: str


@dataclass(frozen=True)
class Call:
    """A call from the bot, with its parameters decoded."""

    method: str
    params: Json
    files: dict[str, Upload] = field(default_factory=dict)
    result: Any = None

    @property
    def text(self) -> str:
        return str(self.params.get("text", self.params.get("caption", "")))


def units(text: str) -> int:
    """The length in UTF-16 code units, as the platform counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class Account:
    """The data that the platform stores. With ``privacy`` the bot is in privacy mode: in a group it
    receives only commands, mentions and replies to its messages."""

    def __init__(self, bot_id: int, username: str, *, privacy: bool = False) -> None:
        self.me = {"id": bot_id, "is_bot": True, "first_name": "Nekro", "username": username}
        self.privacy = privacy
        self.chats: dict[int, Json] = {}
        self.messages: dict[tuple[int, int], Json] = {}
        self.updates: list[Json] = []
        self.files: dict[str, Upload] = {}
        self.asking: list[tuple[int, int]] = []
        """The chats and people of requests to join that wait for an answer."""
        self.reactions: dict[tuple[int, int], list[str]] = {}
        """The bot's reactions to messages, by chat and message."""
        self._message_ids = itertools.count(1)
        self._update_ids = itertools.count(500_001)
        self._file_ids = itertools.count(1)

    # -- people ----------------------------------------------------------------------------

    def chat(self, chat_id: int, **fields: Any) -> Json:
        """Return a chat. It is made when it is named for the first time: as a supergroup if the id
        is negative, else as a private chat."""
        kind = "supergroup" if chat_id < 0 else "private"
        name = {"title": f"Group {-chat_id}"} if chat_id < 0 else {"first_name": f"User {chat_id}"}
        return self.chats.setdefault(chat_id, {"id": chat_id, "type": kind, **name, **fields})

    def person(self, user: int | Json) -> Json:
        if isinstance(user, dict):
            return user
        return {"id": user, "is_bot": False, "first_name": f"User {user}"}

    def said(
        self,
        chat_id: int,
        user: int | Json,
        text: str = "",
        *,
        reply_to: int | None = None,
        thread: int | None = None,
        **fields: Any,
    ) -> Json:
        """Store a person's message. If ``fields`` have a medium, ``text`` becomes its caption."""
        chat = self.chat(chat_id)
        message: Json = {
            "message_id": next(self._message_ids),
            "from": self.person(user),
            "chat": chat,
            "date": int(time.time()),
        }
        if chat["type"] == "channel":
            del message["from"]
            message["sender_chat"] = chat
        if text:
            name = "caption" if any(kind in fields for kind in MEDIA) else "text"
            message[name] = text
            found = self._entities(text)
            if found:
                message["entities" if name == "text" else "caption_entities"] = found
        if reply_to is not None:
            quoted = dict(self.messages[chat_id, reply_to])
            quoted.pop("reply_to_message", None)
            message["reply_to_message"] = quoted
        if thread is not None:
            message |= {"message_thread_id": thread, "is_topic_message": True}
        message |= fields
        self.messages[chat_id, message["message_id"]] = message
        return message

    def tell(self, kind: str, what: Json) -> Json:
        """Add an update for the bot. It is stored until the bot confirms it."""
        if kind == "chat_join_request":
            self.asking.append((what["chat"]["id"], what["from"]["id"]))
        update = {"update_id": next(self._update_ids), kind: what}
        self.updates.append(update)
        return update

    def heard_in_privacy(self, message: Json) -> bool:
        """Return True if a bot in privacy mode receives this message."""
        if message["chat"]["type"] not in ("group", "supergroup"):
            return True
        text = message.get("text", message.get("caption", ""))
        quoted = message.get("reply_to_message", {}).get("from", {}).get("id")
        return text.startswith("/") or f"@{self.me['username']}" in text or quoted == self.me["id"]

    def keep(self, data: bytes, name: str = "file.bin", mime: str = "") -> str:
        """Store a file on the platform. Returns its file_id."""
        identity = f"file-{next(self._file_ids)}"
        self.files[identity] = Upload(name, data, mime)
        return identity

    def photo(self, data: bytes = PNG) -> list[Json]:
        small, large = self.keep(b"a thumbnail"), self.keep(data, "photo.png", "image/png")
        return [_photo_size(small, 90), _photo_size(large, 1280)]

    def voice(self, data: bytes) -> Json:
        return {**_file(self.keep(data, "voice.oga")), "duration": 1, "mime_type": "audio/ogg"}

    def document(self, data: bytes, name: str, mime: str = "application/pdf") -> Json:
        return {**_file(self.keep(data, name)), "file_name": name, "mime_type": mime}

    def _entities(self, text: str) -> list[Json]:
        found = []
        for mark, kind in (("@", "mention"), ("/", "bot_command")):
            place = text.find(mark)
            if place >= 0 and (mark == "@" or place == 0):
                length = len(text[place:].split(maxsplit=1)[0])
                found.append({"type": kind, "offset": units(text[:place]), "length": length})
        return found

    # -- the bot ---------------------------------------------------------------------------

    def do(self, method: str, params: Json, files: dict[str, Upload]) -> Any:
        """Carry out a call and return its result. Raises `Refused`."""
        handler = getattr(self, f"do_{method}", None)
        if handler is not None:
            return handler(params)
        kind = method.removeprefix("send").lower()
        if method == "sendMediaGroup":
            return self.send_album(params, files)
        if method.startswith("send") and kind in MEDIA:
            return self._send_medium(kind, params, files)
        raise Refused("Not Found: method not found", 404)

    def do_getMe(self, _params: Json) -> Json:  # noqa: N802 - the platform's name, as all below
        return {**self.me, "can_join_groups": True, "can_read_all_group_messages": not self.privacy}

    def do_deleteWebhook(self, _params: Json) -> bool:  # noqa: N802
        return True

    def do_sendMessage(self, params: Json) -> Json:  # noqa: N802
        text = str(params.get("text", ""))
        if not text.strip():
            raise Refused("Bad Request: message text is empty")
        if units(text) > TEXT_UNITS:
            raise Refused("Bad Request: message is too long")
        found = _checked_entities(text, params.get("entities"))
        return self._sent(params, {"text": text} | ({"entities": found} if found else {}))

    def _send_medium(self, kind: str, params: Json, files: dict[str, Upload]) -> Json:
        upload = self._uploaded(params.get(kind, ""), files)
        identity = self.keep(upload.data, upload.name, upload.mime)
        medium: Any = {**_file(identity), "file_name": upload.name, "mime_type": upload.mime}
        if kind == "photo":
            medium = [_photo_size(identity, 1280)]
        if kind in ("voice", "audio", "video", "animation"):
            medium |= {"duration": 1, "width": 1, "height": 1}
        return self._sent(params, {kind: medium, **_caption(params)})

    def send_album(self, params: Json, files: dict[str, Upload]) -> list[Json]:
        uploads = [self._uploaded(item["media"], files) for item in params["media"]]
        if not 2 <= len(uploads) <= 10:
            raise Refused("Bad Request: group of media must have from 2 to 10 items")
        return [
            self._sent(
                params, {"photo": [_photo_size(self.keep(upload.data), 1280)], **_caption(item)}
            )
            for item, upload in zip(params["media"], uploads, strict=True)
        ]

    def do_editMessageText(self, params: Json) -> Json:  # noqa: N802
        message = self._own(params)
        text = str(params["text"])
        if units(text) > TEXT_UNITS:
            raise Refused("Bad Request: message is too long")
        if message.get("text") == text:
            raise Refused(
                "Bad Request: message is not modified: specified new message content and reply "
                "markup are exactly the same as a current content and reply markup of the message"
            )
        message["text"] = text
        message["edit_date"] = int(time.time())
        return message

    def do_sendChatAction(self, params: Json) -> bool:  # noqa: N802
        if params["action"] not in CHAT_ACTIONS:
            raise Refused("Bad Request: wrong parameter action in request")
        self._chat_of(params)
        return True

    def do_setMessageReaction(self, params: Json) -> bool:  # noqa: N802
        self._chat_of(params)
        message = self.messages.get((int(params["chat_id"]), int(params["message_id"])))
        if message is None:
            raise Refused("Bad Request: message to react not found")
        given = [each["emoji"] for each in params.get("reaction", ()) if each["type"] == "emoji"]
        if len(given) > 1:
            raise Refused("Bad Request: REACTIONS_TOO_MANY")
        if any(emoji not in REACTIONS for emoji in given):
            raise Refused("Bad Request: REACTION_INVALID")
        self.reactions[int(params["chat_id"]), int(params["message_id"])] = given
        return True

    def _chat_of(self, params: Json) -> Json:
        chat = self.chats.get(int(params["chat_id"]))
        if chat is None:
            raise Refused("Bad Request: chat not found")
        if params.get("message_thread_id") is not None and not chat.get("is_forum"):
            raise Refused("Bad Request: message thread not found")
        return chat

    def do_deleteMessage(self, params: Json) -> bool:  # noqa: N802
        self._own(params)["deleted"] = True
        return True

    def do_getFile(self, params: Json) -> Json:  # noqa: N802
        identity = str(params["file_id"])
        if identity not in self.files:
            raise Refused("Bad Request: invalid file_id")
        size = len(self.files[identity].data)
        if size > 20_000_000:
            raise Refused("Bad Request: file is too big")
        return {**_file(identity), "file_size": size, "file_path": f"documents/{identity}"}

    def _answer_request(self, params: Json) -> bool:
        asked = params["chat_id"], params["user_id"]
        if asked not in self.asking:
            raise Refused("Bad Request: HIDE_REQUESTER_MISSING")
        self.asking.remove(asked)
        return True

    do_approveChatJoinRequest = do_declineChatJoinRequest = _answer_request  # noqa: N815

    def do_getChatMember(self, params: Json) -> Json:  # noqa: N802
        return {"status": "member", "user": self.person(int(params["user_id"]))}

    def _sent(self, params: Json, content: Json) -> Json:
        chat_id = int(params["chat_id"])
        self._chat_of(params)
        message = {
            "message_id": next(self._message_ids),
            "from": self.me,
            "chat": self.chats[chat_id],
            "date": int(time.time()),
            **content,
        }
        thread = params.get("message_thread_id")
        if thread is not None:
            message |= {"message_thread_id": int(thread), "is_topic_message": True}
        reply = params.get("reply_parameters")
        if reply:
            quoted = self.messages.get((chat_id, int(reply["message_id"])))
            if quoted is not None:
                message["reply_to_message"] = quoted
            elif not reply.get("allow_sending_without_reply"):
                raise Refused("Bad Request: message to be replied not found")
        self.messages[chat_id, message["message_id"]] = message
        return message

    def _own(self, params: Json) -> Json:
        found = self.messages.get((int(params["chat_id"]), int(params["message_id"])))
        if found is None or found.get("from") != self.me or found.get("deleted"):
            raise Refused("Bad Request: message to edit not found")
        return found

    def _uploaded(self, reference: str, files: dict[str, Upload]) -> Upload:
        if reference.startswith("attach://"):
            found = files.get(reference.removeprefix("attach://"))
            if found is None:
                raise Refused("Bad Request: there is no such file in the request")
            if not found.data:
                raise Refused("Bad Request: file must be non-empty")
            return found
        if reference in self.files:
            return self.files[reference]
        raise Refused("Bad Request: wrong file identifier/HTTP URL specified")


def _caption(params: Json) -> Json:
    caption = str(params.get("caption") or "")
    if units(caption) > CAPTION_UNITS:
        raise Refused("Bad Request: message caption is too long")
    found = _checked_entities(caption, params.get("caption_entities"))
    return ({"caption": caption} if caption else {}) | (
        {"caption_entities": found} if found else {}
    )


def _checked_entities(text: str, entities: Any) -> list[Json]:
    for entity in entities or ():
        inside = entity["offset"] >= 0 and entity["offset"] + entity["length"] <= units(text)
        if not inside or entity["length"] <= 0:
            raise Refused(f"Bad Request: can't parse entities: {json.dumps(entity)}")
    return list(entities or ())


def _file(identity: str) -> Json:
    return {"file_id": identity, "file_unique_id": f"u-{identity}"}


def _photo_size(identity: str, width: int) -> Json:
    return {**_file(identity), "width": width, "height": width}
