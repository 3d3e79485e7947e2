"""Decides who sets an argument that has one of the host's names and is also declared as a
parameter: the model or the host.

MaiBot gives each tool ``user_id``, ``group_id``, ``stream_id`` and so on. Many tools declare such a
name as a parameter. Some tools mean another person or chat: ``open_private_chat(user_id,
message)``. Other tools describe the value that the host gives anyway: "the id of the current chat".
The description of the parameter shows which of these two cases it is.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from nekro_core.chat import ChatKey, ChatKeyError, ChatKind
from nekro_core.compat.maibot.formats.schema import HOST_NAMES
from nekro_core.tools.outcome import ToolFailure

_CHATS = ("stream_id", "chat_id", "group_id")
"""Parameters that name a chat."""
_KNOWN_HERE = frozenset({*_CHATS, "platform"})
"""Parameters that a model may always leave out, because the host knows the present value."""
_CLAUSE = re.compile(r"[,，;；。()（）\n]|\.\s")
_ABOUT_DEFAULT = re.compile(
    r"默认|留空|缺省|不填|不传|为空|省略|可选|如果|若|デフォルト|省略"
    r"|\b(?:default|omit|empty|blank|optional|leave|left out|if|unless)",
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"目标|对方|被|指定|想要|要\S{1,8}的|相手|対象|\b(?:target|other|another|whom|recipient|receiver)",
    re.IGNORECASE,
)
_IN_THIS_CHAT = re.compile(
    r"(?:当前|本)(?:群|聊天|会话|频道)[^,，。]{0,6}(?:成员|的|内|里|中)"
    r"|\b(?:of|in) (?:the current|this) (?:chat|group|channel|session|conversation)",
    re.IGNORECASE,
)
"""Words about a person of the current chat. They mean that the chat is the current one; the person
may be any member."""
_CURRENT = re.compile(
    r"当前|本群|此群|本聊天|本会话|所在|发起|请求者|请求人|调用者|提问|询问者|说话人|发言|发送者|发送人"
    r"|触发|自己|本人|現在の|発言者|依頼者"
    r"|\b(?:current|this (?:chat|group|user|stream|session)|request(?:er|ing|or)|caller|calling"
    r"|sender|asker|asking|speaker|invok|initiat|who asks|your own)",
    re.IGNORECASE,
)


def set_by_model(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return those of the host's names among a tool's parameters that the model sets.

    The host sets a name if the parameter's description says that it is the person who asks or the
    current chat. Text about a default, such as "empty for the current group", does not count. The
    model sets a ``message`` unless it is an object: an object is the message that the bot answers.
    """
    chosen = set()
    for name in HOST_NAMES & set(schema["properties"]):
        each = schema["properties"][name]
        if name == "message":
            if each.get("type") != "object":
                chosen.add(name)
        elif not _is_current(name, str(each.get("description") or "")):
            chosen.add(name)
    return frozenset(chosen)


def _is_current(name: str, description: str) -> bool:
    clauses = [each for each in _CLAUSE.split(description) if not _ABOUT_DEFAULT.search(each)]
    text = " ".join(clauses)
    if name == "user_id":
        text = _IN_THIS_CHAT.sub(" ", text)
    return bool(_CURRENT.search(text)) and not _OTHER.search(text)


def optional_here(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Make the parameters for the chat and the platform optional. The host fills them in."""
    required = [name for name in schema["required"] if name not in _KNOWN_HERE]
    return {**schema, "required": required}


def given_by_host(
    host: Mapping[str, Any], given: Mapping[str, Any], schema: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments from the host: all of ``host`` except those that the model has set.

    An optional argument that the model set to an empty value counts as not set. A value is
    converted to a whole number if the tool declares one.
    """
    made = {}
    for name, value in host.items():
        if name in given and (given[name] or name in schema["required"]):
            continue
        declared = schema["properties"].get(name) or {}
        number = declared.get("type") in ("integer", "number") and str(value).isdigit()
        made[name] = int(value) if number else value
    return made


def within_chat(
    given: Mapping[str, Any], names: Collection[str], chat: ChatKey, *, anywhere: bool
) -> dict[str, Any]:
    """Check that the model has not named a chat in which the plugin may not act. Raises
    `ToolFailure`.

    Args:
        given: The arguments that the model has set.
        names: The host's names among the tool's parameters that the model sets.
        chat: The chat in which the model was asked.
        anywhere: Whether the operator lets the plugin act in other chats.

    Returns:
        The arguments. The model may name this chat by its key or by the platform's id. In the
        result, the argument has the form that plugins expect.
    """
    made = dict(given)
    group = "" if chat.kind is ChatKind.PRIVATE else chat.native_id
    for name in sorted({*names} & {*_CHATS}):
        value = str(given.get(name) or "").strip()
        if not value:
            continue
        if value in (str(chat), group):
            if not isinstance(given[name], int):
                made[name] = group if name == "group_id" else str(chat)
            continue
        if name != "group_id":
            _check_key(name, value, chat)
        if not anywhere:
            raise ToolFailure(
                f"{name}: {value} is another chat than {chat}; leave it out for this chat. The "
                "operator allows other chats with NEKRO_PLUGIN__MAY_SEND_ELSEWHERE"
            )
    return made


def _check_key(name: str, value: str, chat: ChatKey) -> None:
    try:
        ChatKey.parse(value)
    except ChatKeyError:
        raise ToolFailure(
            f"{name}: expected {str(chat)!r}, which is this chat, got {value!r}; leave it out for "
            "this chat"
        ) from None
