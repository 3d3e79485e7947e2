"""The names of the APIs that MaiBot's adapter for QQ offers to plugins, with the OneBot actions
behind them.

A plugin calls, for example, ``ctx.api.call("adapter.napcat.group.set_group_ban", group_id=...)``.
In MaiBot, the adapter for QQ answers this call. Here the bot's own OneBot adapter answers it
(`nekro_core.compat.maibot.onebot`). The names and fields come from the public documentation of
MaiBot's adapter. The same names exist with the prefix ``adapter.snowluma``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType

PROVIDERS: Mapping[str, str] = MappingProxyType(
    {
        "adapter.napcat.": "maibot-team.napcat-adapter",
        "adapter.snowluma.": "maibot-team.snowluma-adapter",
    }
)
"""For each prefix, the id of the MaiBot plugin that offers the APIs with this prefix."""
_VERSION = "1"

SECTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "account": (
            "create_collection", "delete_friend", "fetch_custom_face", "get_ai_characters",
            "get_clientkey", "get_collection_list", "get_cookies", "get_friend_list",
            "get_friends_with_category", "get_mini_app_ark", "get_profile_like",
            "get_recent_contact", "get_rkey", "get_rkey_server", "get_stranger_info",
            "get_unidirectional_friend_list", "internal_ocr_image", "nc_get_rkey", "ocr_image",
            "send_like", "set_diy_online_status", "set_friend_add_request", "set_friend_remark",
            "set_qq_avatar", "set_qq_profile", "set_self_longnick", "translate_en2zh",
        ),
        "file": (
            "cancel_online_file", "clean_stream_temp_file", "create_flash_task",
            "create_group_file_folder", "del_group_album_media", "delete_group_file",
            "delete_group_folder", "do_group_album_comment", "download_file",
            "download_file_image_stream", "download_file_record_stream", "download_file_stream",
            "download_fileset", "get_file", "get_fileset_id", "get_fileset_info",
            "get_flash_file_list", "get_flash_file_url", "get_group_album_media_list",
            "get_group_file_system_info", "get_group_file_url", "get_group_files_by_folder",
            "get_group_root_files", "get_image", "get_online_file_msg", "get_private_file_url",
            "get_qun_album_list", "get_record", "get_share_link", "move_group_file",
            "receive_online_file", "refuse_online_file", "rename_group_file", "send_flash_msg",
            "send_online_file", "send_online_folder", "set_group_album_media_like",
            "test_download_stream", "trans_group_file", "upload_file_stream", "upload_group_file",
            "upload_image_to_qun_album", "upload_private_file",
        ),
        "group": (
            "delete_essence_msg", "delete_group_notice", "get_essence_msg_list",
            "get_group_at_all_remain", "get_group_detail_info", "get_group_honor_info",
            "get_group_ignore_add_request", "get_group_ignored_notifies", "get_group_info",
            "get_group_info_ex", "get_group_list", "get_group_member_info",
            "get_group_member_list", "get_group_notice", "get_group_shut_list",
            "get_group_system_msg", "get_guild_list", "get_guild_service_profile", "group_poke",
            "handle_quick_operation_internal", "send_group_msg", "send_group_notice",
            "send_group_sign", "set_essence_msg", "set_group_add_option", "set_group_add_request",
            "set_group_admin", "set_group_ban", "set_group_card", "set_group_kick",
            "set_group_kick_members", "set_group_leave", "set_group_name", "set_group_portrait",
            "set_group_remark", "set_group_robot_add_option", "set_group_search",
            "set_group_sign", "set_group_special_title", "set_group_todo", "set_group_whole_ban",
        ),
        "message": (
            "ark_share_group", "ark_share_peer", "click_inline_keyboard_button", "delete_msg",
            "fetch_emoji_like", "forward_friend_single_msg", "forward_group_single_msg",
            "friend_poke", "get_ai_record", "get_emoji_likes", "get_forward_msg",
            "get_friend_msg_history", "get_group_msg_history", "get_msg", "mark_all_as_read",
            "mark_group_msg_as_read", "mark_msg_as_read", "mark_private_msg_as_read",
            "send_ark_share", "send_forward_msg", "send_group_ai_record", "send_group_ark_share",
            "send_group_forward_msg", "send_msg", "send_poke", "send_private_forward_msg",
            "send_private_msg", "set_msg_emoji_like",
        ),
        "system": (
            "bot_exit", "can_send_image", "can_send_record", "check_url_safely", "clean_cache",
            "get_credentials", "get_csrf_token", "get_doubt_friends_add_request",
            "get_login_info", "get_model_show", "get_online_clients", "get_robot_uin_range",
            "get_status", "get_version_info", "nc_get_packet_status", "nc_get_user_status",
            "send_packet", "set_doubt_friends_add_request", "set_input_status", "set_model_show",
            "set_online_status", "set_restart", "unknown_action",
        ),
    }
)  # fmt: skip
"""The last words of the names, by section. In ``adapter.napcat.group.set_group_ban`` the section is
``group`` and the last word is ``set_group_ban``."""

_ACTIONS: Mapping[str, str] = MappingProxyType(
    {
        "ark_share_group": "ArkShareGroup",
        "ark_share_peer": "ArkSharePeer",
        "delete_group_notice": "_del_group_notice",
        "get_group_notice": "_get_group_notice",
        "get_model_show": "_get_model_show",
        "handle_quick_operation_internal": ".handle_quick_operation",
        "internal_ocr_image": ".ocr_image",
        "mark_all_as_read": "_mark_all_as_read",
        "send_group_notice": "_send_group_notice",
        "set_model_show": "_set_model_show",
        "unknown_action": "unknown",
    }
)
"""Maps the last word of an API's name to the name of its OneBot action, if the two differ."""


class ResultForm(Enum):
    """What a call returns. With `RESPONSE`, it returns OneBot's whole response (``status``,
    ``retcode``, ``data``, ...), also if the platform refuses. With `DATA`, it returns only the
    response's ``data``, a dict, or None if the call fails. With `ITEMS`, it returns only the
    response's ``data``, a list, or an empty list if the call fails."""

    RESPONSE = auto()
    DATA = auto()
    ITEMS = auto()


_FORMS: Mapping[str, ResultForm] = MappingProxyType(
    {
        "get_forward_msg": ResultForm.DATA,
        "get_friend_list": ResultForm.ITEMS,
        "get_group_at_all_remain": ResultForm.DATA,
        "get_group_detail_info": ResultForm.DATA,
        "get_group_info": ResultForm.DATA,
        "get_group_list": ResultForm.ITEMS,
        "get_group_member_info": ResultForm.DATA,
        "get_group_member_list": ResultForm.ITEMS,
        "get_login_info": ResultForm.DATA,
        "get_msg": ResultForm.DATA,
        "get_record": ResultForm.DATA,
        "get_stranger_info": ResultForm.DATA,
    }
)
_ANY = ("action.call", "action.call_data")
"""The APIs that call an action which the plugin names."""
_WORDS = frozenset(word for words in SECTIONS.values() for word in words)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBotApi:
    """One API. ``action`` is the OneBot action; it is empty if the plugin names the action in the
    call, as ``action_name``."""

    name: str
    provider: str
    action: str
    form: ResultForm

    def described(self) -> dict[str, object]:
        """The description that ``ctx.api.list`` returns."""
        return {
            "name": self.name,
            "full_name": f"{self.provider}.{self.name}",
            "plugin_id": self.provider,
            "description": f"OneBot: {self.action or 'any action'}",
            "version": _VERSION,
            "public": True,
        }


def find_onebot_api(name: str, version: str = "") -> OneBotApi | None:
    """Find an API by its name, which may begin with its provider's id. The section of the name is
    not checked, because adapters put the same action into different sections
    (``message.send_group_msg``)."""
    if version not in ("", _VERSION):
        return None
    for prefix, provider in PROVIDERS.items():
        short = name.removeprefix(f"{provider}.")
        if not short.startswith(prefix):
            continue
        rest = short.removeprefix(prefix)
        if rest in _ANY:
            return _any_action(short, provider)
        section, _, word = rest.partition(".")
        if section in SECTIONS and word in _WORDS:
            return _of_word(short, provider, word)
    return None


def onebot_apis() -> Iterator[OneBotApi]:
    """Yield all APIs, under both prefixes."""
    for prefix, provider in PROVIDERS.items():
        for word in _ANY:
            yield _any_action(f"{prefix}{word}", provider)
        for section, words in SECTIONS.items():
            for word in words:
                yield _of_word(f"{prefix}{section}.{word}", provider, word)


def _any_action(name: str, provider: str) -> OneBotApi:
    form = ResultForm.DATA if name.endswith("call_data") else ResultForm.RESPONSE
    return OneBotApi(name=name, provider=provider, action="", form=form)


def _of_word(name: str, provider: str, word: str) -> OneBotApi:
    form = _FORMS.get(word, ResultForm.RESPONSE)
    return OneBotApi(name=name, provider=provider, action=_ACTIONS.get(word, word), form=form)
