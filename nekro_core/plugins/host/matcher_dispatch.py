"""Gives events to NoneBot's matchers, and tells which events a matcher keeps from the bot.

In NoneBot a matcher with ``block=True`` keeps an event that it handles from all matchers of lower
priority. The bot's commands, hooks and agent are treated as if they were a matcher of the lowest
priority: they do not handle a message that was blocked. It is still stored.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import cache

import anyio
from loguru import logger
from nonebot.matcher import Matcher, matchers

DECISION_S = 2.0
"""How long a message waits for its matchers. A matcher with ``block=True`` decides when it begins
to run. Only slow rules, and slow matchers before it that do not block, take longer."""


class MatcherDecision:
    """Whether a matcher keeps one event from the bot."""

    def __init__(self) -> None:
        self._known = anyio.Event()
        self._blocked = False
        self.in_propagation = False
        """Whether NoneBot gives the event to matchers now."""

    def make(self, *, blocked: bool) -> None:
        """Decide, unless it is decided already.

        Args:
            blocked: Whether the bot must not answer the event.
        """
        if not self._known.is_set():
            self._blocked = blocked
            self._known.set()

    async def blocked(self) -> bool:
        """Wait until it is decided, for at most `DECISION_S` seconds.

        Returns:
            True if the bot must not answer the event. False if nothing blocks it, or if that is
            not known in time.
        """
        with anyio.move_on_after(DECISION_S) as wait:
            await self._known.wait()
        if wait.cancelled_caught:
            logger.warning("NoneBot's matchers took over {:g} s: the bot goes on", DECISION_S)
        return self._blocked


_decision: ContextVar[MatcherDecision | None] = ContextVar("matcher_decision", default=None)


def has_matchers() -> bool:
    """Whether a plugin has registered a matcher of NoneBot.

    Returns:
        True if events are to be given to `dispatch_event`.
    """
    return any(matchers.values())


async def dispatch_event(decision: MatcherDecision, handle: Callable[[], Awaitable[None]]) -> None:
    """Give an event to NoneBot's matchers.

    Args:
        decision: Is made when a matcher blocks the event, and at the end.
        handle: Calls ``handle_event`` of the bot with the event. Its errors are logged: they are
            the matchers' own.
    """
    _watch_nonebot()
    token = _decision.set(decision)
    try:
        await handle()
    except Exception:  # noqa: BLE001 - a stranger's matcher; its failure is its own
        logger.exception("a NoneBot matcher failed")
    finally:
        _decision.reset(token)
        # An event that a preprocessor ignores reaches no matcher, and ends without `_on_end`.
        decision.make(blocked=decision.in_propagation)


@cache
def _watch_nonebot() -> None:
    """Have NoneBot report how it handles an event, once per process: it keeps these functions for
    as long as it lives, and they do nothing for events that were not dispatched here."""
    from nonebot import message  # noqa: PLC0415 - takes 10 ms, and most bots have no matchers

    message.event_preprocessor(_on_begin)
    message.run_preprocessor(_on_run)
    message.run_postprocessor(_on_ran)
    message.event_postprocessor(_on_end)


async def _on_begin() -> None:
    if decision := _decision.get():
        decision.in_propagation = True


async def _on_run(matcher: Matcher) -> None:
    if matcher.block and (decision := _decision.get()):
        decision.make(blocked=True)


async def _on_ran(matcher: Matcher) -> None:
    # NoneBot's ``stop_propagation`` sets ``block`` while the matcher runs.
    await _on_run(matcher)


async def _on_end() -> None:
    if decision := _decision.get():
        decision.in_propagation = False
        decision.make(blocked=False)
