"""Gives events to NoneBot's matchers, and finds out which events a matcher blocks.

If a matcher with ``block=True`` handles an event, NoneBot does not give the event to matchers of
lower priority. The bot's commands, hooks and agent are treated as a matcher of the lowest priority:
they do not handle a message that was blocked. The bot still stores the message.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import cache

import anyio
from loguru import logger
from nonebot.matcher import Matcher, matchers

DECISION_S = 2.0
"""Maximum number of seconds that a message waits for the decision whether a matcher blocks it. The
decision is made when a matcher with ``block=True`` begins to run, or when all matchers have ended.
So a message waits this long only if there are slow rules, or slow matchers that do not block."""


class MatcherDecision:
    """The decision whether a matcher has blocked one event, so that the bot must not answer it.
    Create it when the event arrives."""

    def __init__(self) -> None:
        # The time counts from the arrival of the event: the messages of a chat are handled one
        # after another, and a wait for each message would add up.
        self._deadline = anyio.current_time() + DECISION_S
        self._known = anyio.Event()
        self._blocked = False
        self.in_propagation = False
        """Whether NoneBot is giving the event to matchers at this moment."""

    def make(self, *, blocked: bool) -> None:
        """Make the decision, unless it has already been made.

        Args:
            blocked: Whether the bot must not answer the event.
        """
        if not self._known.is_set():
            self._blocked = blocked
            self._known.set()

    async def blocked(self) -> bool:
        """Wait for the decision, at most until `DECISION_S` seconds after the event arrived.

        Returns:
            True if the bot must not answer the event. False if no matcher blocks the event, or if
            the decision was not made in time.
        """
        with anyio.CancelScope(deadline=self._deadline):
            await self._known.wait()
        if not self._known.is_set():
            logger.warning("NoneBot's matchers took over {:g} s: the bot stops waiting", DECISION_S)
        return self._blocked


_decision: ContextVar[MatcherDecision | None] = ContextVar("matcher_decision", default=None)


def has_matchers() -> bool:
    """Check whether a plugin has registered a matcher of NoneBot.

    Returns:
        True if events must be given to `dispatch_event`.
    """
    return any(matchers.values())


async def dispatch_event(decision: MatcherDecision, handle: Callable[[], Awaitable[None]]) -> None:
    """Give an event to NoneBot's matchers.

    Args:
        decision: The decision about this event. It is made when a matcher blocks the event, and at
            the end at the latest.
        handle: Calls ``handle_event`` of the NoneBot bot with the event. Its errors are logged and
            not raised, because they are errors of matchers.
    """
    _watch_nonebot()
    token = _decision.set(decision)
    try:
        await handle()
    except Exception:  # noqa: BLE001 - a matcher's error does not concern us
        logger.exception("a NoneBot matcher failed")
    finally:
        _decision.reset(token)
        # If `_on_end` was not called, a preprocessor ignored the event, and no matcher got it. The
        # bot must not answer such an event.
        decision.make(blocked=decision.in_propagation)


@cache
def _watch_nonebot() -> None:
    """Register functions with which NoneBot reports how it handles an event. This is done once per
    process, because NoneBot never removes such functions. They do nothing for events that
    `dispatch_event` did not dispatch."""
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
