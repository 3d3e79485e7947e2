"""Functions for timers that fire once, under the names that existing plugins use.

Times are seconds since 1970. When a timer is due, a system line is added to the timer's chat, and
the chat's agent answers it. Timers survive restarts. A tool that the model called may set timers
for the chat of the call, and for other chats if the operator allows the plugin to; otherwise
`ToolFailure` is raised.
"""

from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from loguru import logger

from nekro_core.plugins.authoring.current import allowed_chat, current_services
from nekro_core.timers import TimerRefused, TimerService, parsed_zone, zone_of
from nekro_core.tools.outcome import ToolFailure

__all__ = [
    "TimerTask",
    "clear_timer",
    "clear_timers",
    "get_timers",
    "local_time_of",
    "moment_of",
    "now",
    "set_temp_timer",
    "set_timer",
]


@dataclass(frozen=True, slots=True)
class TimerTask:
    """A timer that is not due yet.

    Attributes:
        chat_key: The chat whose agent is woken.
        trigger_time: The due time, in whole seconds since 1970.
        event_desc: The text that tells the agent what to do then.
        temporary: Whether this is the chat's temporary timer, of which a chat has at most one.
        timer_id: The timer's id.
    """

    chat_key: str
    trigger_time: int
    event_desc: str
    temporary: bool = False
    timer_id: str = ""


class _Listed(list[TimerTask]):
    """A list that can also be awaited, because some plugins await the result of `get_timers`."""

    def __await__(self) -> Generator[Any, None, "_Listed"]:
        yield from ()
        return self


def current_timers() -> TimerService:
    """Get the bot's timer service. Raises `ToolFailure` if the bot has none."""
    found = current_services().timers
    if found is None:
        raise ToolFailure("there are no timers here")
    return found


async def set_timer(
    chat_key: str, trigger_time: float, event_desc: str, *, temporary: bool = False
) -> bool:
    """Wake the chat's agent at a time.

    Args:
        chat_key: The chat. A tool that the model called may name the chat of the call, and other
            chats if the operator allows the plugin to.
        trigger_time: The due time in seconds since 1970; 0 is now. A negative value deletes timers
            of the chat instead: with ``temporary`` the temporary timer, else all others.
        event_desc: The text that tells the agent what to do then.
        temporary: Whether this is the chat's temporary timer. A chat has one, so the new timer
            replaces it.

    Returns:
        True if the timer was set or timers were deleted. False if the time is past, the text is
        empty or too long, or there are too many timers; the log says which.

    Raises:
        ToolFailure: The chat is not allowed, or the bot has no timers.
    """
    chat = allowed_chat(chat_key)
    if trigger_time < 0:
        await current_timers().clear(chat, temporary=temporary)
        return True
    try:
        await current_timers().set_once(chat, float(trigger_time), event_desc, temporary=temporary)
    except TimerRefused as error:
        logger.warning("{}: a timer is not set: {}", chat, error)
        return False
    return True


async def set_temp_timer(chat_key: str, trigger_time: float, event_desc: str) -> bool:
    """Set the chat's temporary timer, replacing an existing one.

    Args:
        chat_key: As for `set_timer`.
        trigger_time: As for `set_timer`.
        event_desc: As for `set_timer`.

    Returns:
        As of `set_timer`.

    Raises:
        ToolFailure: As of `set_timer`.
    """
    return await set_timer(chat_key, trigger_time, event_desc, temporary=True)


async def clear_timers(chat_key: str, temporary: bool | None = None) -> bool:
    """Delete the chat's timers that are not recurring.

    Args:
        chat_key: As for `set_timer`.
        temporary: True for the temporary timer, False for the others, None for all.

    Returns:
        Always True.

    Raises:
        ToolFailure: As of `set_timer`.
    """
    await current_timers().clear(allowed_chat(chat_key), temporary=temporary)
    return True


def get_timers(chat_key: str) -> list[TimerTask]:
    """List the chat's timers that are not due yet.

    Args:
        chat_key: As for `set_timer`.

    Returns:
        The timers, in the order of their due times. The list may be awaited.

    Raises:
        ToolFailure: As of `set_timer`.
    """
    return _Listed(
        TimerTask(
            chat_key=str(row.chat_key),
            trigger_time=round(row.due),
            event_desc=row.text,
            temporary=row.kind == "temporary",
            timer_id=row.timer_id,
        )
        for row in current_timers().of_chat(allowed_chat(chat_key))
    )


async def clear_timer(chat_key: str, timer_id: str) -> bool:
    """Delete one timer of a chat, even a recurring one.

    Args:
        chat_key: As for `set_timer`.
        timer_id: The timer's id.

    Returns:
        False if the chat has no timer of that id.

    Raises:
        ToolFailure: As of `set_timer`.
    """
    return await current_timers().forget(allowed_chat(chat_key), timer_id)


def now() -> float:
    """Get the present time of the clock that timers use.

    Returns:
        Seconds since 1970.

    Raises:
        ToolFailure: The bot has no timers.
    """
    return current_timers().now()


def moment_of(local_time: str, timezone: str = "") -> float:
    """Turn a local date and time into seconds since 1970.

    Args:
        local_time: ISO 8601, for example ``2026-11-23 07:30``. An offset in it overrides
            ``timezone``.
        timezone: An IANA time zone (``Asia/Shanghai``). If it is empty, the zone that the operator
            set, else the machine's.

    Returns:
        Seconds since 1970.

    Raises:
        ValueError: The time or the zone cannot be read.
    """
    zone = zone_of(parsed_zone(timezone or current_timers().timezone))
    try:
        moment = datetime.fromisoformat(local_time.strip())
    except ValueError:
        raise TimerRefused(
            f"the time {local_time[:40]!r}: expected a form such as 2026-11-23 07:30"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()


def local_time_of(moment: float, timezone: str = "") -> str:
    """Turn seconds since 1970 into a local date and time.

    Args:
        moment: Seconds since 1970.
        timezone: As for `moment_of`.

    Returns:
        The time to the minute, for example ``2026-11-23 07:30``.

    Raises:
        ValueError: There is no such zone.
    """
    zone = zone_of(parsed_zone(timezone or current_timers().timezone))
    return datetime.fromtimestamp(moment, zone).strftime("%Y-%m-%d %H:%M")
