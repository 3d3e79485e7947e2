"""Timers that come once, as plain functions: the form in which existing plugins set them.

Times are seconds since 1970. A timer that is due puts a system line into its chat, and the chat's
agent answers it, after restarts as well. In a tool that the model called, the chat has to be its
own, or one that the operator allows the plugin (`ToolFailure`).
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
    """A timer that is not due yet."""

    chat_key: str
    trigger_time: int
    event_desc: str
    temporary: bool = False
    timer_id: str = ""


class _Listed(list[TimerTask]):
    """A list that may be awaited as well: plugins do the one and the other."""

    def __await__(self) -> Generator[Any, None, "_Listed"]:
        yield from ()
        return self


def current_timers() -> TimerService:
    """The bot's. Raises `ToolFailure` where it has none."""
    found = current_services().timers
    if found is None:
        raise ToolFailure("there are no timers here")
    return found


async def set_timer(
    chat_key: str, trigger_time: float, event_desc: str, *, temporary: bool = False
) -> bool:
    """Wake the chat's agent at a time, with what it shall do then; 0 is now, and a time before 1970
    clears the chat's timers instead.

    False where it was not set: the time is over, the text is empty or too long, or there are too
    many. The log says which. A chat has one ``temporary`` timer: the next takes its place.
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
    """`set_timer` for the chat's one temporary timer."""
    return await set_timer(chat_key, trigger_time, event_desc, temporary=True)


async def clear_timers(chat_key: str, temporary: bool | None = None) -> bool:
    """Forget the chat's timers: all of them, the temporary one (True), or the others (False)."""
    await current_timers().clear(allowed_chat(chat_key), temporary=temporary)
    return True


def get_timers(chat_key: str) -> list[TimerTask]:
    """The chat's timers that are not due yet, by their times. May be awaited."""
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
    """Forget one timer of a chat, a recurring one too; False where the chat has none of the id."""
    return await current_timers().forget(allowed_chat(chat_key), timer_id)


def now() -> float:
    """Seconds since 1970, by the clock that timers go by."""
    return current_timers().now()


def moment_of(local_time: str, timezone: str = "") -> float:
    """A date and time of day (``2026-11-23 07:30``) as seconds since 1970, in a zone of the IANA's;
    without one the operator's, or the machine's. Raises `ValueError`."""
    zone = zone_of(parsed_zone(timezone or current_timers().timezone))
    try:
        moment = datetime.fromisoformat(local_time.strip())
    except ValueError:
        raise TimerRefused(
            f"the time {local_time[:40]!r}: expected a form such as 2026-11-23 07:30"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()


def local_time_of(moment: float, timezone: str = "") -> str:
    """The reverse of `moment_of`."""
    zone = zone_of(parsed_zone(timezone or current_timers().timezone))
    return datetime.fromtimestamp(moment, zone).strftime("%Y-%m-%d %H:%M")
