"""Holds the state of the fake OneBot implementation: its account, its chats and all
their messages."""

import base64
import hashlib
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.peers.onebot_v11.messages import Json, cq_text, parse_cq, segments_of

Chat = tuple[str, str]
"""A chat by kind and id: ``("group", "30003")`` or ``("private", "10001")``."""


MOST_FORWARDED = 100
_NODE_KEYS = ("user_id", "nickname")


class BadParameters(Exception):
    """A call has missing or wrong parameters. It is answered with retcode 1400, as NapCat does."""


class UnknownAction(Exception):
    """The action does not exist. The call is answered with retcode 1404."""


def number(value: Any) -> Any:
    """An id as it is sent: an integer if it has only digits, else a text."""
    return int(value) if str(value).lstrip("-").isdecimal() else str(value)


@dataclass
class Account:
    """One account and its chats. Tests compare the bot's records with the ``history`` here."""

    self_id: str
    string_messages: bool = False
    has_history: bool = True
    bundles: Literal["napcat", "go-cqhttp", "lagrange", ""] = "napcat"
    """The implementation whose calls for bundles of forwarded messages the fake imitates. If empty,
    the fake has no such calls."""
    takes_pieces: bool = True
    """True if the fake supports NapCat's ``upload_file_stream``."""
    has_signs: bool = True
    """True if the fake has NapCat's ``set_input_status`` and ``set_msg_emoji_like``."""
    typed_to: list[str] = field(default_factory=list)
    """The friends who were shown that the account is typing, in order."""
    reactions: list[tuple[Any, str]] = field(default_factory=list)
    """The messages to which the account reacted, each with the number of the emoji."""
    placed: dict[str, bytes] = field(default_factory=dict)
    """Files that were uploaded in pieces, by the paths that their uploaders received."""
    pieces: dict[str, dict[int, bytes]] = field(default_factory=dict)
    clock: Callable[[], float] = time.time
    history: dict[Chat, list[Json]] = field(default_factory=dict)
    files: dict[str, Json] = field(default_factory=dict)
    forwards: dict[str, Json] = field(default_factory=dict)
    ids: Callable[[], int] = field(default_factory=lambda: itertools.count(1001).__next__)

    def message(
        self,
        chat: Chat,
        user: int | str,
        what: str | Json | list[Json],
        *,
        message_id: int | str | None = None,
        at_time: float | None = None,
        role: str = "member",
    ) -> Json:
        """Make a new message of this chat, store it in the history, and return it as an event."""
        segments = segments_of(what)
        identity = self.ids() if message_id is None else message_id
        kind, native = chat
        event: Json = {
            "time": int(self.clock() if at_time is None else at_time),
            "self_id": number(self.self_id),
            "post_type": "message",
            "message_type": kind,
            "sub_type": "normal" if kind == "group" else "friend",
            "message_id": identity,
            "message_seq": identity,
            "real_id": identity,
            "user_id": number(user),
            "message": cq_text(segments) if self.string_messages else segments,
            "message_format": "string" if self.string_messages else "array",
            "raw_message": cq_text(segments),
            "font": 14,
            "sender": {
                "user_id": number(user),
                "nickname": f"name of {user}",
                "card": "",
                "role": role,
            },
        }
        if kind == "group":
            event["group_id"] = number(native)
        self.history.setdefault(chat, []).append(event)
        return event

    def do(self, action: str, params: Json) -> Any:
        """Carry out one call and return its ``data``."""
        method = getattr(self, f"do_{action}", None)
        if method is None:
            raise UnknownAction(action)
        try:
            return method(params)
        except (KeyError, TypeError, ValueError) as error:
            raise BadParameters(f"{action}: {error!r}") from error

    def do_send_msg(self, params: Json) -> Json:
        kind = params.get("message_type") or ("group" if params.get("group_id") else "private")
        native = params["group_id"] if kind == "group" else params["user_id"]
        message = params["message"]
        segments = parse_cq(message) if isinstance(message, str) else segments_of(message)
        if not segments:
            raise BadParameters("message is empty")
        return {"message_id": self._own((kind, str(native)), segments)["message_id"]}

    def do_send_group_msg(self, params: Json) -> Json:
        return self.do_send_msg({**params, "message_type": "group"})

    def do_send_private_msg(self, params: Json) -> Json:
        return self.do_send_msg({**params, "message_type": "private"})

    def do_send_group_forward_msg(self, params: Json) -> Json:
        return self._forward(("group", str(params["group_id"])), params["messages"])

    def do_send_private_forward_msg(self, params: Json) -> Json:
        return self._forward(("private", str(params["user_id"])), params["messages"])

    def do_upload_group_file(self, params: Json) -> None:
        self._upload(("group", str(params["group_id"])), params)

    def do_upload_private_file(self, params: Json) -> None:
        self._upload(("private", str(params["user_id"])), params)

    def do_upload_file_stream(self, params: Json) -> Json:
        if not self.takes_pieces:
            raise UnknownAction("upload_file_stream")
        pieces = self.pieces.setdefault(params["stream_id"], {})
        total = params["total_chunks"]
        if not params.get("is_complete"):
            if not 0 <= params["chunk_index"] < total:
                raise LookupError("Invalid chunk index")
            pieces[params["chunk_index"]] = base64.b64decode(params["chunk_data"])
            return {"type": "stream", "status": "chunk_received", "received_chunks": len(pieces)}
        data = b"".join(pieces[number] for number in range(total))
        if hashlib.sha256(data).hexdigest() != params["expected_sha256"]:
            raise LookupError("SHA256 mismatch")
        path = f"/app/.config/QQ/NapCat/temp/{params['filename']}"
        self.placed[path] = data
        return {"type": "response", "status": "file_complete", "file_path": path}

    def do_get_msg(self, params: Json) -> Json:
        for event in itertools.chain.from_iterable(self.history.values()):
            if str(event["message_id"]) == str(params["message_id"]):
                return event
        raise LookupError("message not found")

    def do_get_forward_msg(self, params: Json) -> Json:
        return self.forwards[str(params.get("message_id") or params["id"])]

    def do_get_group_msg_history(self, params: Json) -> Json:
        return self._page(("group", str(params["group_id"])), params)

    def do_get_friend_msg_history(self, params: Json) -> Json:
        return self._page(("private", str(params["user_id"])), params)

    def do_get_recent_contact(self, params: Json) -> list[Json]:
        self._need_history()
        newest = {chat: said[-1]["time"] for chat, said in self.history.items() if said}
        return [
            {
                "chatType": 2 if kind == "group" else 1,
                "peerUin": native,
                "msgTime": str(newest_time),
            }
            for (kind, native), newest_time in newest.items()
        ][: int(params.get("count", 10))]

    def do_get_login_info(self, _params: Json) -> Json:
        return {"user_id": number(self.self_id), "nickname": "Bot"}

    def do_get_version_info(self, _params: Json) -> Json:
        return {"app_name": "NekroPeer", "app_version": "1", "protocol_version": "v11"}

    def do_get_status(self, _params: Json) -> Json:
        return {"online": True, "good": True}

    def do_get_group_list(self, _params: Json) -> list[Json]:
        return [
            {"group_id": number(native), "group_name": f"group {native}"}
            for kind, native in self.history
            if kind == "group"
        ]

    def do_get_friend_list(self, _params: Json) -> list[Json]:
        return [
            {"user_id": number(native), "nickname": f"name of {native}", "remark": ""}
            for kind, native in self.history
            if kind == "private"
        ]

    def do_get_group_info(self, params: Json) -> Json:
        group = params["group_id"]
        return {"group_id": number(group), "group_name": f"group {group}", "member_count": 3}

    def do_get_group_member_info(self, params: Json) -> Json:
        user = params["user_id"]
        return {
            "group_id": number(params["group_id"]),
            "user_id": number(user),
            "nickname": f"name of {user}",
            "card": "",
            "role": "member",
        }

    def do_get_group_member_list(self, params: Json) -> list[Json]:
        said = self.history.get(("group", str(params["group_id"])), [])
        return [
            self.do_get_group_member_info({**params, "user_id": user})
            for user in dict.fromkeys(event["user_id"] for event in said)
        ]

    def do_set_group_ban(self, _params: Json) -> Json:
        return {}

    def do_set_group_whole_ban(self, params: Json) -> None:
        _whole_number(params["group_id"])

    def do_set_group_kick(self, params: Json) -> None:
        _whole_number(params["group_id"])
        _whole_number(params["user_id"])

    do_set_group_card = do_set_group_kick

    def do_set_friend_add_request(self, params: Json) -> None:
        _answered(params)

    def do_set_group_add_request(self, params: Json) -> None:
        _answered(params)

    def do_send_like(self, params: Json) -> None:
        _whole_number(params["user_id"])

    do_send_poke = do_send_like  # NapCat and LLOneBot have this action; the standard does not

    def do_set_input_status(self, params: Json) -> Json:
        if not self.has_signs:
            raise UnknownAction("set_input_status")
        _whole_number(params["event_type"])
        if ("private", str(params["user_id"])) not in self.history:
            raise LookupError("uid is empty")
        self.typed_to.append(str(params["user_id"]))
        return {"result": 0, "errMsg": ""}

    def do_set_msg_emoji_like(self, params: Json) -> Json:
        if not self.has_signs:
            raise UnknownAction("set_msg_emoji_like")
        self.do_get_msg(params)
        if not str(params["emoji_id"]).isdecimal():
            raise BadParameters(f"emoji_id {params['emoji_id']!r}: expected a number")
        self.reactions.append((params["message_id"], str(params["emoji_id"])))
        return {"result": 0, "errMsg": ""}

    def do_get_stranger_info(self, params: Json) -> Json:
        return {"user_id": number(params["user_id"]), "nickname": f"name of {params['user_id']}"}

    def do_get_image(self, params: Json) -> Json:
        return self.files[str(params["file"])]

    do_get_record = do_get_image

    def do_get_file(self, params: Json) -> Json:
        return self.files[str(params.get("file_id") or params["file"])]

    do_get_group_file_url = do_get_private_file_url = do_get_file

    def do_delete_msg(self, params: Json) -> None:
        event = self.do_get_msg(params)
        for said in self.history.values():
            if event in said:
                said.remove(event)

    def _own(self, chat: Chat, segments: list[Json]) -> Json:
        return self.message(chat, self.self_id, segments)

    def _forward(self, chat: Chat, nodes: list[Json]) -> Json:
        """Store a bundle of messages for `get_forward_msg`, and return what the call answers."""
        if not self.bundles:
            raise UnknownAction("this implementation cannot forward bundles")
        if not nodes or len(nodes) > MOST_FORWARDED:
            raise BadParameters(f"{len(nodes)} messages in one bundle: expected 1 to 100")
        user_key, name_key = ("uin", "name") if self.bundles == "go-cqhttp" else _NODE_KEYS
        messages = []
        for node in nodes:
            data = node["data"]
            if node["type"] != "node" or not data["content"]:
                raise BadParameters(f"a bundle consists of messages, got {node}")
            for segment in data["content"]:
                if segment["type"] not in ("text", "image", "at", "face"):
                    raise BadParameters(f"a bundle cannot contain a segment {segment['type']}")
            sender = {"user_id": int(data[user_key]), "nickname": data[name_key]}
            messages.append(
                {"sender": sender, "time": int(self.clock()), "message": data["content"]}
            )
        res_id = f"res-{len(self.forwards) + 1}"
        self.forwards[res_id] = {"messages": messages}
        shown: Json = {"type": "forward", "data": {"id": res_id}}
        if self.bundles == "lagrange":
            shown = {
                "type": "json",
                "data": {"data": f'{{"app": "multimsg", "resid": "{res_id}"}}'},
            }
        identity = self._own(chat, [shown])["message_id"]
        if self.bundles == "napcat":
            return {"message_id": identity, "res_id": res_id}
        return {"message_id": identity, "forward_id": res_id}

    def _upload(self, chat: Chat, params: Json) -> None:
        data = {"file": params["file"], "name": params["name"]}
        self._own(chat, [{"type": "file", "data": data}])

    def _page(self, chat: Chat, params: Json) -> Json:
        """A page of messages up to and including ``message_seq``, oldest first."""
        self._need_history()
        said = self.history.get(chat, [])
        before = params.get("message_seq")
        if before:
            position = [str(event["message_seq"]) for event in said].index(str(before))
            said = said[: position + 1]
        page = said[-int(params.get("count") or 20) :]
        own = number(self.self_id)
        return {
            "messages": [
                {**event, "post_type": "message_sent"} if event["user_id"] == own else event
                for event in page
            ]
        }

    def _need_history(self) -> None:
        if not self.has_history:
            raise UnknownAction("this implementation has no history")


def _whole_number(value: Any) -> None:
    if not isinstance(value, int):
        raise TypeError(f"{value!r}: expected an integer")


def _answered(params: Json) -> None:
    if not params["flag"] or not isinstance(params["approve"], bool):
        raise BadParameters(f"{params}: expected a flag, and approve as true or false")
