"""Functions for OneBot: ask the platform for names of people, and define commands as matchers of
NoneBot."""

from typing import Any

import nonebot
from nonebot.adapters import Bot, Event, Message
from nonebot.matcher import Matcher

from nekro_core.compat.nekro_agent.host import current_host
from nekro_core.compat.nekro_agent.legacy_segments import ChatType
from nekro_core.compat.nekro_agent.platform import bot_of
from nekro_core.plugins.authoring.binding import current_owner
from nekro_core.policy.permissions import CommandPermission, permission_of
from nekro_core.tools.outcome import InvalidValue, ToolFailure


async def get_user_name(event: Any = None, bot: Any = None, user_id: str = "", **_: Any) -> str:
    """A person's nickname. Raises `ToolFailure` if no account is connected."""
    user_id = str(user_id or getattr(event, "user_id", ""))
    info = await (bot or bot_of("")).get_stranger_info(user_id=int(user_id))
    return str(info.get("nickname") or user_id)


async def get_user_group_card_name(
    group_id: str | int, user_id: str | int, bot: Any = None, **_: Any
) -> str:
    """A person's name in a group: the group card, or the nickname if there is no group card."""
    member = await (bot or bot_of("")).get_group_member_info(
        group_id=int(group_id), user_id=int(user_id)
    )
    return str(member.get("card") or member.get("nickname") or user_id)


async def get_user_avatar(user_id: str | int, **_: Any) -> str:
    """The address of a person's avatar. Raises `ToolFailure` for an id that is not a number."""
    if not str(user_id).isdigit():
        raise ToolFailure(f"{user_id!r} is not the number of an account")
    return f"https://q1.qlogo.cn/g?b=qq&nk={user_id}&s=640"


async def get_chat_info(event: Any, *_: Any, **__: Any) -> tuple[str, ChatType]:
    """The chat of an event, ``group_30003`` or ``private_10001``, and the kind of the chat. Raises
    `ValueError` for an event that belongs to no chat."""
    if group := getattr(event, "group_id", None):
        return f"group_{group}", ChatType.GROUP
    if person := getattr(event, "user_id", None):
        return f"private_{person}", ChatType.PRIVATE
    raise InvalidValue(f"{type(event).__name__} belongs to no group and no person")


async def get_chat_info_old(event: Any, *_: Any, **__: Any) -> tuple[str, ChatType]:
    """The same as `get_chat_info`, except that it returns the whole chat key:
    ``onebot_v11-group_30003``."""
    channel, kind = await get_chat_info(event)
    return f"{_instance(str(event.self_id))}-{channel}", kind


def on_command(cmd: str, *args: Any, **kwargs: Any) -> type[Matcher]:
    """Call NoneBot's ``on_command``. The matcher is destroyed when the plugin is unloaded.

    Raises `ValueError` if NoneBot does not run. The plugin loader then starts NoneBot and loads the
    plugin again.
    """
    matcher = nonebot.on_command(cmd, *args, **kwargs)
    owner = current_owner()
    if owner is not None:
        owner.effects.add(f"matcher of /{cmd}", matcher.destroy)
    return matcher


async def command_guard(
    event: Event,
    bot: Bot,
    arg: Message[Any],
    matcher: Matcher,
    trigger_on_off: bool = False,
    require_advanced_command: bool = False,
    **_: Any,
) -> tuple[str, str, str, Any]:
    """Let only super users run a command. For other people, the matcher ends without an answer.

    With ``require_advanced_command``, advanced users may run the command too.

    Returns:
        The person's name, the text after the command, the chat's key and its kind.
    """
    del trigger_on_off
    user_id = event.get_user_id()
    host = current_host()
    level = permission_of(
        host.command, adapter="onebot_v11", instance=_instance(bot.self_id), user_id=user_id
    )
    wanted = CommandPermission.SUPER_USER
    if require_advanced_command:
        wanted = CommandPermission.ADVANCED
    if not level.allows(wanted):
        await matcher.finish()
    group = getattr(event, "group_id", None)
    kind = "group" if group else "private"
    chat_key = f"{_instance(bot.self_id)}-{kind}_{group or user_id}"
    sender = getattr(event, "sender", None)
    name = getattr(sender, "card", "") or getattr(sender, "nickname", "") or user_id
    return name, arg.extract_plain_text().strip(), chat_key, kind


async def reset_command_guard(
    event: Event, bot: Bot, arg: Message[Any], matcher: Matcher, **kwargs: Any
) -> tuple[str, str, str, Any]:
    """Do the same as `command_guard`. If there is a text after the command, it is also returned as
    the chat's key."""
    name, words, chat_key, kind = await command_guard(event, bot, arg, matcher, **kwargs)
    return name, words, words or chat_key, kind


async def finish_with(matcher: type[Matcher] | Matcher, message: str = "", **_: Any) -> None:
    """Send an answer and end the matcher. Always raises NoneBot's ``FinishedException``."""
    await matcher.finish(message)


def _instance(account: str) -> str:
    return current_host().store.accounts.instances("onebot_v11").get(account, "onebot_v11")
