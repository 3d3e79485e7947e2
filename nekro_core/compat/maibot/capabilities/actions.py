"""``ctx.send.command``: actions of OneBot by the names that plugins know."""

import json
from collections.abc import Mapping
from typing import Any

from nekro_core.chat import ChatKey, ChatKind
from nekro_core.compat.maibot.capabilities.call import (
    Answer,
    CapabilityCall,
    CapabilityError,
    success,
)
from nekro_core.compat.maibot.capabilities.send import context_of

_ADAPTER = "onebot_v11"
_ACTIONS: Mapping[str, str] = {
    "send_poke": "send_poke",
    "group_ban": "set_group_ban",
    "group_whole_ban": "set_group_whole_ban",
    "group_kick": "set_group_kick",
    "delete_msg": "delete_msg",
    "set_group_card": "set_group_card",
    "send_like": "send_like",
}
_NUMBERS = ("user_id", "group_id", "message_id", "duration", "times")


async def command(asked: CapabilityCall) -> Answer:
    """``send.command``: a name, or a dict (or its JSON) with ``name`` and ``args``."""
    chat = asked.chat()
    services, key = asked.host.ports.services, asked.live.plugin.key
    if context_of(asked, chat).chat != chat and key not in services.may_send_elsewhere:
        raise CapabilityError(
            f"{asked.name}: {chat} is another chat (NEKRO_PLUGIN__MAY_SEND_ELSEWHERE)"
        )
    if services.adapter_of(chat.instance) != _ADAPTER:
        raise CapabilityError(
            f"{asked.name}: {chat} is no chat of OneBot, which alone has actions here"
        )
    name, args = _read(asked.args.get("command"), asked.args.get("args"))
    action = _ACTIONS.get(name)
    if action is None:
        raise CapabilityError(
            f"{asked.name}: {name!r} is not known; there are {', '.join(_ACTIONS)}"
        )
    account = asked.host.ports.store.accounts.of(chat.instance)
    answer = await _called(account.account if account else "", action, _about(chat, args))
    return success(sent=True, message_id=None, result=answer)


def _read(given: Any, args: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(given, str) and given.lstrip().startswith("{"):
        try:
            given = json.loads(given)
        except ValueError:
            raise CapabilityError(f"send.command: {given[:80]!r} is no JSON") from None
    if isinstance(given, Mapping):
        args = given.get("args", args)
        given = given.get("name") or given.get("command")
    return str(given or "").strip().lower(), dict(args) if isinstance(args, Mapping) else {}


def _about(chat: ChatKey, args: Mapping[str, Any]) -> dict[str, Any]:
    given = {("user_id" if key == "qq_id" else key): value for key, value in args.items()}
    # Where it happens is never an argument: it is the chat that was named.
    given.pop("group_id", None)
    if chat.kind is ChatKind.GROUP:
        given["group_id"] = chat.native_id
    for key in _NUMBERS:
        if str(given.get(key, "")).lstrip("-").isdigit():
            given[key] = int(given[key])
    return given


async def _called(account: str, action: str, args: Mapping[str, Any]) -> Any:
    import nonebot  # noqa: PLC0415 - it is there where OneBot is, and slow to import elsewhere

    try:
        bot = nonebot.get_bot(account)
    except (KeyError, ValueError):
        raise CapabilityError(f"send.command: account {account} is not connected") from None
    try:
        return await bot.call_api(action, **args)
    except Exception as error:  # an adapter's own tree, which every platform has another of
        raise CapabilityError(f"send.command: {action}: {type(error).__name__}: {error}") from error
