"""Commands: which of the plugins' patterns a message matches, and what its handler answers."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from loguru import logger

from nekro_core.compat.maibot.components import MaiBotComponent
from nekro_core.compat.maibot.plugin import MaiBotPlugin
from nekro_core.system.bounded_pattern import REST_S, BoundedPattern, PatternProblem

LONGEST_TEXT = 4000
"""Characters of a message in which commands are looked for: patterns are searched for in it."""


@dataclass(frozen=True, slots=True)
class CommandMatch:
    """A command that a message calls, with the named groups of its pattern."""

    live: MaiBotPlugin
    component: MaiBotComponent
    groups: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class CommandReply:
    """What a handler returned. ``stops``: the bot is not woken by the message any more;
    ``hides``: the model does not see it either."""

    success: bool
    text: str
    stops: bool
    hides: bool = False


def find(plugins: Iterable[MaiBotPlugin], text: str, stream_id: str) -> CommandMatch | None:
    """The first command over all plugins that matches. An alias matches as it stands, at the
    beginning, before a space or the end."""
    text = text[:LONGEST_TEXT]
    for live in plugins:
        for each in live.of_type("COMMAND"):
            if not live.is_on(each, stream_id):
                continue
            pattern = compiled(live, each)
            if pattern is not None and (groups := pattern.groups(text)) is not None:
                return CommandMatch(live, each, groups)
            for alias in each.words("aliases"):
                if alias and re.match(rf"{re.escape(alias)}(?:\s|\Z)", text):
                    return CommandMatch(live, each, {})
    return None


def compiled(live: MaiBotPlugin, component: MaiBotComponent) -> BoundedPattern | None:
    """A command's pattern; nothing where it has none, or one that is none."""
    pattern = _pattern_of(component)
    if pattern not in live.patterns:
        told = partial(_tell_of, live, component)
        try:
            live.patterns[pattern] = BoundedPattern(pattern, told) if pattern else None
        except PatternProblem:
            live.patterns[pattern] = None
    return live.patterns[pattern]


def _pattern_of(component: MaiBotComponent) -> str:
    pattern = component.metadata.get("command_pattern") or component.metadata.get("pattern")
    return str(pattern or "")


def _tell_of(live: MaiBotPlugin, component: MaiBotComponent, seconds: float) -> None:
    logger.warning(
        "plugin {}: the pattern of its command {!r} was given up after {:.0f} ms, since it "
        "backtracks without end on what somebody wrote; for {:g} s it is not tried. It is {!r}",
        live.plugin_id,
        component.name,
        seconds * 1000,
        REST_S,
        _pattern_of(component),
    )


def problem_of(component: MaiBotComponent) -> str:
    """Why a command can never be called; empty where it can."""
    pattern = _pattern_of(component)
    if not pattern:
        return "" if component.words("aliases") else "it has neither a pattern nor an alias"
    try:
        BoundedPattern(pattern, lambda _: None)
    except PatternProblem as error:
        return f"its pattern {pattern!r} is none: {error}"
    return ""


def answer_of(component: MaiBotComponent, value: Any) -> CommandReply:
    """What a handler returned: ``(success, text, intercept)``, a dict, a text or nothing.

    ``intercept`` is a truth or a level: 1 keeps the message from waking the bot, 2 hides it.
    """
    level = component.number("intercept_message_level", 1)
    if isinstance(value, list | tuple):
        success = bool(value[0]) if value else True
        text = str(value[1]) if len(value) > 1 and value[1] is not None else ""
        wanted = value[2] if len(value) > 2 else True
    elif isinstance(value, Mapping):
        success = bool(value.get("success", True))
        text = str(value.get("message") or value.get("content") or value.get("error") or "")
        wanted = value.get("intercept", value.get("intercept_message", True))
    else:
        success, text, wanted = value is not False, str(value) if isinstance(value, str) else "", 1
    if isinstance(wanted, bool) or not isinstance(wanted, int):
        wanted = level if wanted else 0
    return CommandReply(success, text, stops=wanted > 0, hides=wanted > 1)
