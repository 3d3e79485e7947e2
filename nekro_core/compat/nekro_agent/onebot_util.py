"""What existing plugins ask OneBot for, by its own calls."""

from typing import Any

from nekro_core.compat.nekro_agent.platform import bot_of
from nekro_core.tools.outcome import ToolFailure

__all__ = ["get_user_avatar", "get_user_group_card_name", "get_user_name"]


async def get_user_name(event: Any = None, bot: Any = None, user_id: str = "", **_: Any) -> str:
    """The name of a person. Raises `ToolFailure` where no account is connected."""
    user_id = str(user_id or getattr(event, "user_id", ""))
    found = await (bot or bot_of("")).get_stranger_info(user_id=int(user_id))
    return str(found.get("nickname") or user_id)


async def get_user_group_card_name(
    group_id: str | int, user_id: str | int, bot: Any = None, **_: Any
) -> str:
    """What a person is called in a group."""
    member = await (bot or bot_of("")).get_group_member_info(
        group_id=int(group_id), user_id=int(user_id)
    )
    return str(member.get("card") or member.get("nickname") or user_id)


async def get_user_avatar(user_id: str | int, **_: Any) -> str:
    """Where a person's picture is."""
    if not str(user_id).isdigit():
        raise ToolFailure(f"{user_id!r} is no number of an account")
    return f"https://q1.qlogo.cn/g?b=qq&nk={user_id}&s=640"
