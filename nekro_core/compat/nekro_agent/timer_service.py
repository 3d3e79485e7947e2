"""``timer_service``: timers that wake the agent of a chat, call a function, or do both.

A timer without a function is stored and kept over a restart
(`nekro_core.plugins.timers.functions`). A timer with a ``callback``, or with ``silent=True``, is
only in memory: it ends with the plugin that set it. Plugins set such timers again in their init
method. With ``silent=True``, the chat key may be any text, because plugins use their own texts for
timers that belong to no chat.
"""

import uuid
from collections.abc import Callable, Generator
from typing import Any

import anyio
from loguru import logger

from nekro_core.chat import ChatKey
from nekro_core.compat.nekro_agent.callback_timers import CallbackTimer, LegacyTimer
from nekro_core.compat.nekro_agent.host import NekroAgentHost, current_host
from nekro_core.plugins.authoring.binding import current_owner
from nekro_core.plugins.authoring.current import NoCurrentBot, allowed_chat
from nekro_core.plugins.host.hooks import await_if_needed
from nekro_core.plugins.timers.functions import (
    clear_timer,
    current_timers,
    now,
)
from nekro_core.plugins.timers.functions import (
    clear_timers as clear_stored,
)
from nekro_core.plugins.timers.functions import (
    set_timer as set_stored,
)
from nekro_core.system.sync_bridge import run_bridged

__all__ = [
    "clear_timer",
    "clear_timers",
    "delete_timer_by_id",
    "get_timers",
    "set_temp_timer",
    "set_timer",
]

MOST = 1_000
"""The largest number of timers in memory. A plugin may set one for each chat in which it works."""
_LONGEST_SLEEP_S = 60.0
"""The clock may be changed while a timer waits, so it is read again after this time."""

Callback = Callable[[], Any]
"""A function without parameters; may be async."""


class _Listed(list[LegacyTimer]):
    """A list that can also be awaited, because some plugins await the result of `get_timers`."""

    def __await__(self) -> Generator[Any, None, "_Listed"]:
        yield from ()
        return self


async def set_timer(
    chat_key: str,
    trigger_time: float,
    event_desc: str = "",
    *,
    temporary: bool = False,
    silent: bool = False,
    callback: Callback | None = None,
) -> bool:
    """At a time, call ``callback`` if it is given, and then wake a chat's agent unless ``silent``.

    Args:
        chat_key: The chat. With ``silent``, any text under which the timer is listed.
        trigger_time: The due time in seconds since 1970; 0 is now. A negative value deletes timers
            of the chat instead: with ``temporary`` the temporary ones, else all others.
        event_desc: The text that tells the agent what to do at that time.
        temporary: If true, the timer replaces the chat's temporary timer of the same kind. A timer
            with ``silent`` or ``callback`` is one kind, a timer without them, which is stored, is
            the other. So a chat can have one temporary timer of each kind.
        silent: If true, the agent is not woken.
        callback: A function to call at that time; it is called at once if the time is past.

    Returns:
        True if the timer was set or timers were deleted. False if there are too many timers. A
        timer with neither ``silent`` nor ``callback``, which would be stored, is also refused with
        False if its time is past, or if its text is empty or too long. The log says the reason.

    Raises:
        ToolFailure: The chat is not allowed, or the bot has no timers.
        RuntimeError: ``silent`` or ``callback`` is given, and no plugin's code runs.
    """
    host = current_host()
    if trigger_time < 0:
        return await clear_timers(chat_key, temporary=temporary)
    if callback is None and not silent:
        return await set_stored(chat_key, trigger_time, event_desc, temporary=temporary)
    owner = current_owner()
    if owner is None:
        raise NoCurrentBot("a timer with a callback belongs to a plugin: set it in the plugin")
    if not silent:
        allowed_chat(chat_key)
    if temporary:
        _drop(host, chat_key, temporary=True)
    if len(host.callback_timers) >= MOST:
        logger.warning("{}: a timer is not set: there are {} already", chat_key, MOST)
        return False
    shown = LegacyTimer(
        task_id=uuid.uuid4().hex,
        chat_key=str(chat_key),
        trigger_time=round(trigger_time or now()),
        event_desc=event_desc,
        temporary=temporary,
        created=now(),
    )
    timer = host.callback_timers[shown.task_id] = CallbackTimer(shown)

    def drop() -> None:
        host.callback_timers.pop(shown.task_id, None)

    timer.forget = owner.effects.add(f"timer of {chat_key}", drop)

    async def wait() -> None:
        try:
            while (left := trigger_time - now()) > 0:  # noqa: ASYNC110 - no event
                await anyio.sleep(min(left, _LONGEST_SLEEP_S))
        finally:
            timer.forget()
            drop()
        if callback is not None:
            await run_bridged(await_if_needed(callback()))
        if not silent:
            await set_stored(chat_key, 0, event_desc)

    timer.task = owner.tasks.start(wait, name=f"timer of {chat_key}")
    return True


async def set_temp_timer(
    chat_key: str, trigger_time: float, event_desc: str = "", **options: Any
) -> bool:
    """Set a chat's temporary timer. See `set_timer`.

    Args:
        chat_key: See `set_timer`.
        trigger_time: See `set_timer`.
        event_desc: See `set_timer`.
        **options: ``silent`` and ``callback``, see `set_timer`.

    Returns:
        See `set_timer`.
    """
    return await set_timer(chat_key, trigger_time, event_desc, temporary=True, **options)


def get_timers(chat_key: str) -> list[LegacyTimer]:
    """List the timers of a chat that are not due yet, without the recurring timers.

    Args:
        chat_key: The chat, or the text under which `set_timer` listed the timer.

    Returns:
        The timers in the order in which they were set. The list may be awaited.

    Raises:
        ToolFailure: The chat is not allowed, or the bot has no timers.
    """
    host = current_host()
    found = [each.shown for each in host.callback_timers.values() if _is_of(each, chat_key)]
    if _is_chat(chat_key):
        found += [
            LegacyTimer(
                task_id=row.timer_id,
                chat_key=str(row.chat_key),
                trigger_time=round(row.due),
                event_desc=row.text,
                temporary=row.kind == "temporary",
                created=row.created,
            )
            for row in current_timers().of_chat(allowed_chat(chat_key))
        ]
    return _Listed(sorted(found, key=lambda timer: timer.created))


async def clear_timers(chat_key: str, temporary: bool | None = None) -> bool:
    """Delete a chat's timers that are not recurring.

    Args:
        chat_key: See `get_timers`.
        temporary: True for the temporary timers, False for the other timers, None for all.

    Returns:
        Always True.

    Raises:
        ToolFailure: The chat is not allowed, or the bot has no timers.
    """
    _drop(current_host(), chat_key, temporary=temporary)
    if _is_chat(chat_key):
        await clear_stored(chat_key, temporary)
    return True


async def delete_timer_by_id(task_id: str) -> bool:
    """Delete one timer that is not due yet: a stored one, even a recurring one, or one with
    ``silent`` or ``callback``, whichever plugin has set it.

    Args:
        task_id: The ``task_id`` of a timer that `get_timers` listed, or the id of a recurring
            timer.

    Returns:
        False if there is no such timer.

    Raises:
        ToolFailure: A stored timer belongs to a chat that is not allowed, or the bot has no timers.
    """
    timer = current_host().callback_timers.pop(task_id, None)
    if timer is not None:
        timer.stop()
        return True
    chat = current_timers().chat_of(task_id)
    return chat is not None and await clear_timer(str(chat), task_id)


def _drop(host: NekroAgentHost, chat_key: str, *, temporary: bool | None) -> None:
    for timer in [*host.callback_timers.values()]:
        if _is_of(timer, chat_key) and temporary in (None, timer.shown.temporary):
            del host.callback_timers[timer.shown.task_id]
            timer.stop()


def _is_of(timer: CallbackTimer, chat_key: str) -> bool:
    return timer.shown.chat_key == str(chat_key)


def _is_chat(chat_key: str) -> bool:
    try:
        ChatKey.parse(str(chat_key))
    except ValueError:
        return False
    return True
