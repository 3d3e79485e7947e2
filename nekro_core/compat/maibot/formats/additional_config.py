"""Makes the ``additional_config`` of a message. With these values MaiBot's adapters say where a
message came from and where an answer goes."""

from collections.abc import Mapping
from typing import Any

from nekro_core.chat import ChatKey, ChatKind, Notice, Role, Segment

_QQ = "qq"
_NOTICES: Mapping[str, str] = {"join": "group_increase", "leave": "group_decrease"}
"""Kinds of notices whose name in OneBot is another one."""
_NOTIFY = frozenset({"poke", "lucky_king", "honor", "title", "input_status", "profile_like"})
"""Kinds of notices that OneBot sends as a sub type of ``notify``."""


def additional_config(
    chat: ChatKey,
    *,
    platform: str,
    account: str,
    segments: tuple[Segment, ...] = (),
    role: Role | None = None,
    inherited: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Make the values for a message.

    Args:
        chat: The chat of the message.
        platform: MaiBot's name for the platform of the chat.
        account: The platform's id of the bot's account; may be empty.
        segments: The segments of the message.
        role: The sender's role in a group; None for a message of the bot.
        inherited: The values of the chat's newest message from a plugin's message gateway. The
            gateway needs them to send an answer.

    Returns:
        The inherited values, with ``platform_io_target_group_id`` or
        ``platform_io_target_user_id``, the account, and for QQ the values of MaiBot's adapter for
        NapCat.
    """
    private = chat.kind is ChatKind.PRIVATE
    made: dict[str, Any] = dict(inherited or {})
    made[f"platform_io_target_{'user' if private else 'group'}_id"] = chat.native_id
    if account:
        made.setdefault("self_id", account)
        made.setdefault("platform_io_account_id", account)
    if platform == _QQ:
        notice = next((each for each in segments if isinstance(each, Notice)), None)
        if notice is None:
            made["napcat_message_type"] = "private" if private else "group"
            if role is not None and not private:
                made["user_role"] = role.value
        else:
            made |= _notice(notice, "" if private else chat.native_id, account)
    return made


def _notice(notice: Notice, group: str, account: str) -> dict[str, Any]:
    kind = _NOTICES.get(notice.kind, notice.kind)
    sub_type = notice.detail
    if kind in _NOTIFY:
        kind, sub_type = "notify", notice.kind
    payload: dict[str, Any] = {
        "post_type": "notice",
        "notice_type": kind,
        "sub_type": sub_type,
        "self_id": account,
        "user_id": notice.actor_id if kind == "notify" else notice.target_id or notice.actor_id,
        "operator_id": notice.actor_id,
        "target_id": notice.target_id,
    }
    if group:
        payload["group_id"] = group
    return {
        "napcat_notice_type": kind,
        "napcat_notice_sub_type": sub_type,
        "napcat_notice_payload": payload,
    }
