"""Calls OneBot actions for a plugin, over the connection of the bot's own OneBot adapter."""

import base64
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyio import to_thread
from loguru import logger

from nekro_core.chat import ChatKey, ChatKeyError, ChatKind
from nekro_core.compat.maibot.capability import CapabilityCall, CapabilityError
from nekro_core.compat.maibot.onebot_apis import OneBotApi, ResultForm
from nekro_core.compat.maibot.plugin.loaded import current_call
from nekro_core.system.errors import NekroError

ADAPTER = "onebot_v11"
_NUMBERS = ("user_id", "group_id", "message_id", "target_id", "duration", "times")
"""Fields that are numbers in the OneBot standard. If a plugin gives one as a text of digits, it is
sent as a number."""
_READS = (
    "get_", "_get_", "nc_get_", "can_", "check_", "fetch_", "download_", "ocr_", ".ocr_",
    "translate_", "test_",
)  # fmt: skip
"""An action whose name begins with one of these texts only reads data."""
_TO_A_PERSON = frozenset(
    {
        "ArkSharePeer",
        "forward_friend_single_msg",
        "friend_poke",
        "send_ark_share",
        "send_flash_msg",
        "send_forward_msg",
        "send_msg",
        "send_online_file",
        "send_online_folder",
        "send_poke",
        "send_private_forward_msg",
        "send_private_msg",
        "upload_private_file",
    }
)
"""Actions that act on the private chat with the person ``user_id`` if they name no group."""
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "get_group_member_info": {"no_cache": True},
    "get_record": {"out_format": "wav"},
}
_CALL_S = 30.0
_SLOW_S = 120.0
"""Time limit in seconds of actions that transfer files, and of bundles of messages."""
_SLOW = ("upload_", "download_", "send_group_forward", "send_private_forward", "send_forward")
_MOST_FILE = 30 * 1024 * 1024


class OneBotRefused(NekroError):
    """The platform refused an action. ``response`` is its answer."""

    def __init__(self, action: str, response: Mapping[str, Any]) -> None:
        words = response.get("wording") or response.get("message") or response.get("msg")
        super().__init__(f"{action}: {words or 'refused without a reason'}")
        self.response = dict(response)


async def call_action(
    account: str, action: str, params: Mapping[str, Any], *, seconds: float = _CALL_S
) -> Any:
    """Call an action of a connected account, and return the ``data`` of the answer.

    An empty ``account`` means the first connected account. Raises `OneBotRefused` if the platform
    refuses, and `CapabilityError` if the account is not connected or does not answer.
    """
    bots = _connected()
    bot = bots.get(account) if account else next(iter(bots.values()), None)
    if bot is None:
        raise CapabilityError(
            f"{action}: OneBot account {account or 'at all'} is not connected; connect its client "
            "to /onebot/v11/ws of the bot"
        )
    try:
        return await bot.call_api(action, _timeout=seconds, **params)
    except Exception as error:  # adapters raise errors of different classes
        if isinstance(info := getattr(error, "info", None), Mapping):
            raise OneBotRefused(action, info) from error
        raise CapabilityError(f"{action}: {type(error).__name__}: {error}") from error


async def call_onebot_api(call: CapabilityCall, api: OneBotApi, given: Mapping[str, Any]) -> Any:
    """Answer ``ctx.api.call`` of one of the adapter's APIs.

    Some plugins give the fields of the action in ``params``, others give them directly. If the
    platform refuses or the account does not answer, the return value is the one that `ResultForm`
    names for a failure.

    Raises `CapabilityError` in four cases. The call names no action. The action acts on a chat
    other than the chat of the running handler, and the operator does not allow this. A call with
    `RESPONSE` got no response. Or a call with `DATA` or `ITEMS` failed, and the plugin itself named
    the action.
    """
    fields = {key: value for key, value in given.items() if key != "params"}
    if isinstance(params := given.get("params"), Mapping):
        fields = {**params, **fields}
    action = api.action or str(fields.pop("action_name", "") or "").strip()
    if not action:
        raise CapabilityError(f"{api.name}: action_name is missing")
    fields = _fields_of(action, fields)
    account, instance = await _account_for(call, fields)
    _refuse_other_chat(call, action, fields, instance)
    await to_thread.run_sync(_put_files_in, call, fields)
    seconds = _SLOW_S if action.startswith(_SLOW) else _CALL_S
    try:
        data = await call_action(account, action, fields, seconds=seconds)
    except (OneBotRefused, CapabilityError) as error:
        if api.form is ResultForm.RESPONSE and isinstance(error, OneBotRefused):
            return {"status": "failed", "data": None, "message": str(error), **error.response}
        if api.form is ResultForm.RESPONSE or not api.action:
            raise CapabilityError(str(error)) from None
        logger.warning("plugin {}: {}", call.plugin.plugin_id, error)
        return [] if api.form is ResultForm.ITEMS else None
    if api.form is ResultForm.RESPONSE:
        return {"status": "ok", "retcode": 0, "data": data, "message": "", "wording": ""}
    return _items(data) if api.form is ResultForm.ITEMS else _data(api.action, data)


def connected_bots() -> dict[str, Any]:
    """Return the accounts that are connected on any platform of NoneBot: a map from an account's id
    to its NoneBot ``Bot``."""
    import nonebot  # noqa: PLC0415 - slow to import; only OneBot and gateways need it

    try:
        return nonebot.get_bots()
    except ValueError:  # NoneBot does not run
        return {}


def _connected() -> dict[str, Any]:
    bots = connected_bots()
    return {name: bot for name, bot in bots.items() if bot.adapter.get_name() == "OneBot V11"}


def _fields_of(action: str, given: Mapping[str, Any]) -> dict[str, Any]:
    fields = {**_DEFAULTS.get(action, {}), **given}
    if action == "send_poke" and "qq_id" in fields:
        fields.setdefault("user_id", fields.pop("qq_id"))
    for key in _NUMBERS:
        text = str(fields.get(key, ""))
        if text.removeprefix("-").isdecimal():
            fields[key] = int(text)
    return {key: value for key, value in fields.items() if value is not None}


async def _account_for(call: CapabilityCall, fields: Mapping[str, Any]) -> tuple[str, str]:
    """The account that carries out the action, and its instance. If the handler's chat is on
    OneBot, this is the account of the chat. Otherwise it is the connected account that has a chat
    with the group or person. If there is none, it is the first connected account."""
    store, handler = call.bot.store, current_call()
    if handler is not None and store.accounts.adapter_of(handler.ctx.chat.instance) == ADAPTER:
        account = store.accounts.of(handler.ctx.chat.instance)
        if account is not None:
            return account.account, account.instance
    known = {
        instance: account
        for account, instance in store.accounts.instances(ADAPTER).items()
        if account in _connected()
    }
    if len(known) > 1:
        natives = {str(fields.get("group_id") or fields.get("user_id") or "")}
        for key in await store.chats.all():
            if key.instance in known and key.native_id in natives:
                return known[key.instance], key.instance
    return next(((account, instance) for instance, account in known.items()), ("", ADAPTER))


def _refuse_other_chat(
    call: CapabilityCall, action: str, fields: Mapping[str, Any], instance: str
) -> None:
    if action.startswith(_READS):
        return
    kind, native = ChatKind.GROUP, fields.get("group_id")
    if not native and action in _TO_A_PERSON:
        kind, native = ChatKind.PRIVATE, fields.get("user_id")
    if not native:
        return
    try:
        chat = ChatKey(instance, kind, str(native))
    except ChatKeyError as error:
        raise CapabilityError(f"{action}: {error}") from None
    call.writing_context(chat)


def _put_files_in(call: CapabilityCall, fields: dict[str, Any]) -> None:
    """Replace paths of files by the bytes of the files, because the OneBot implementation may run
    on another machine. Only files of the plugin and temporary files are read, because the path may
    come from the model."""
    if "file" in fields:
        fields["file"] = _bytes_of(call, fields["file"])
    if isinstance(message := fields.get("message"), list):
        fields["message"] = [_segment(call, each) for each in message]


def _segment(call: CapabilityCall, segment: Any) -> Any:
    data = segment.get("data") if isinstance(segment, Mapping) else None
    if not isinstance(data, Mapping) or "file" not in data:
        return segment
    return {**segment, "data": {**data, "file": _bytes_of(call, data["file"])}}


def _bytes_of(call: CapabilityCall, given: Any) -> Any:
    if not isinstance(given, str) or not given.removeprefix("file://").startswith("/"):
        return given
    path = Path(given.removeprefix("file://")).resolve()
    if not _may_read(call, path):
        return given
    try:
        if not path.is_file() or path.stat().st_size > _MOST_FILE:
            return given
        return f"base64://{base64.b64encode(path.read_bytes()).decode()}"
    except OSError:
        return given


def _may_read(call: CapabilityCall, path: Path) -> bool:
    own = (call.plugin.folder, call.plugin.native.get_plugin_data_dir())
    if any(path.is_relative_to(folder.resolve()) for folder in own):
        return True
    if path.is_relative_to(call.bot.services.data_dir.resolve()):
        return False  # the file belongs to another plugin or to the bot
    return path.is_relative_to(Path(tempfile.gettempdir()).resolve())


def _data(action: str, data: Any) -> Any:
    if action == "get_forward_msg":
        found = data.get("messages", data.get("message")) if isinstance(data, Mapping) else data
        return {"messages": found if isinstance(found, list) else []}
    return data


def _items(data: Any) -> list[Any]:
    """The list in ``data``. Some versions of OneBot implementations put the list into an object."""
    if isinstance(data, Mapping):
        data = next((each for each in data.values() if isinstance(each, list)), [])
    return list(data) if isinstance(data, list) else []
