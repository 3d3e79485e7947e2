"""Finds the command of a MaiBot plugin that a message calls, and runs it."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from loguru import logger

from nekro_core.chat import ChatKey, ChatKind
from nekro_core.compat.maibot.formats.messages import host_arguments
from nekro_core.compat.maibot.hooks.handlers import HookRunner
from nekro_core.compat.maibot.plugin.components import MaiBotComponent
from nekro_core.compat.maibot.plugin.loaded import MaiBotPlugin
from nekro_core.plugins.authoring.commands import SpokenCommand
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.faults import is_cancellation
from nekro_core.plugins.authoring.pattern_usage import usage_of_pattern
from nekro_core.policy.permissions import CommandPermission
from nekro_core.system.bounded_pattern import REST_S, BoundedPattern, PatternProblem
from nekro_core.tools.outcome import ToolFailure

WAIT_S = 4.0
"""How many seconds a message waits for its command. A slower command continues in the background,
and its message does not wake the bot."""
_LONGEST_TEXT = 4000
"""How many characters at the beginning of a message are searched for commands."""


@dataclass(frozen=True, slots=True)
class CommandMatch:
    """A command that a message calls, with the named groups of its pattern."""

    plugin: MaiBotPlugin
    component: MaiBotComponent
    groups: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class CommandReply:
    """The result of a command. If ``stops`` is true, the message that called the command does not
    wake the bot. If ``hides`` is true, the model does not see this message either."""

    success: bool
    text: str
    stops: bool
    hides: bool = False


def find(plugins: Iterable[MaiBotPlugin], text: str, stream_id: str) -> CommandMatch | None:
    """Find the first command of all plugins that a text calls; None if it calls no command.

    A text calls an alias if it begins with the alias, followed by white space or the end of the
    text.
    """
    text = text[:_LONGEST_TEXT]
    for plugin in plugins:
        for each in plugin.of_type("COMMAND"):
            if not plugin.is_on(each, stream_id):
                continue
            pattern = compiled(plugin, each)
            if pattern is not None and (groups := pattern.groups(text)) is not None:
                return CommandMatch(plugin, each, groups)
            for alias in each.words("aliases"):
                if alias and re.match(rf"{re.escape(alias)}(?:\s|\Z)", text):
                    return CommandMatch(plugin, each, {})
    return None


def compiled(plugin: MaiBotPlugin, component: MaiBotComponent) -> BoundedPattern | None:
    """The compiled pattern of a command; None if the command has no pattern or an invalid
    pattern."""
    pattern = _pattern_of(component)
    if pattern not in plugin.patterns:
        report = partial(_log_given_up, plugin, component)
        try:
            plugin.patterns[pattern] = BoundedPattern(pattern, report) if pattern else None
        except PatternProblem:
            plugin.patterns[pattern] = None
    return plugin.patterns[pattern]


def _pattern_of(component: MaiBotComponent) -> str:
    pattern = component.metadata.get("command_pattern") or component.metadata.get("pattern")
    return str(pattern or "")


def _log_given_up(plugin: MaiBotPlugin, component: MaiBotComponent, seconds: float) -> None:
    logger.warning(
        "plugin {}: the pattern of its command {!r} was stopped after {:.0f} ms, because it "
        "backtracks too long on a message; it is not used for {:g} s. The pattern is {!r}",
        plugin.plugin_id,
        component.name,
        seconds * 1000,
        REST_S,
        _pattern_of(component),
    )


def has_call(component: MaiBotComponent) -> bool:
    """Return True if a command has a pattern or an alias with which a message can call it."""
    return bool(_pattern_of(component) or component.words("aliases"))


def problem_of(component: MaiBotComponent) -> str:
    """The reason why a command's pattern is invalid; empty if it is valid."""
    pattern = _pattern_of(component)
    if not pattern:
        return ""
    try:
        BoundedPattern(pattern, lambda _: None)
    except PatternProblem as error:
        return f"its pattern {pattern!r} is none: {error}"
    return ""


def spoken(component: MaiBotComponent) -> SpokenCommand | None:
    """What people type to call a command, for ``/help``; None if nobody can call it."""
    pattern = _pattern_of(component)
    shown = [usage_of_pattern(pattern)] if pattern and not problem_of(component) else []
    shown += [each for each in component.words("aliases") if each]
    if not shown:
        return None
    operators = component.metadata.get("permission") == "operator"
    return SpokenCommand(
        usage=", ".join(dict.fromkeys(shown)),
        description=component.description,
        permission=CommandPermission.SUPER_USER if operators else CommandPermission.PUBLIC,
    )


def reply_of(component: MaiBotComponent, value: Any) -> CommandReply:
    """Convert the return value of a handler: ``(success, text, intercept)``, a dict, a text or
    None.

    ``intercept`` is a bool or a level. From level 1 on, the message does not wake the bot. From
    level 2 on, the model does not see the message either. True, which is also the default, means
    the level in the command's option ``intercept_message_level``, or 1.
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


class MaiBotCommands:
    """Runs commands. ``is_operator`` says whether a person in a chat may run the commands for
    operators."""

    def __init__(self, hooks: HookRunner, is_operator: Callable[[ChatKey, str], bool]) -> None:
        self._hooks = hooks
        self._is_operator = is_operator

    async def run(
        self,
        match: CommandMatch,
        ctx: AgentCtx,
        text: str,
        message: Mapping[str, Any],
        change: Callable[[Any], None],
    ) -> CommandReply:
        """Run a command in a task of its plugin, and wait at most `WAIT_S` for its result. If there
        is none by then, the returned reply only keeps the message from waking the bot. ``change``
        is called with the message that the hooks before the command return."""
        over = anyio.Event()
        replies: list[CommandReply] = []

        async def run() -> None:
            try:
                replies.append(await self._call(match, ctx, text, message, change))
            finally:
                over.set()

        match.plugin.native.tasks.start(run, name=f"command {match.component.name}")
        with anyio.move_on_after(WAIT_S):
            await over.wait()
        return replies[0] if replies else CommandReply(False, "", stops=True)

    async def _call(
        self,
        match: CommandMatch,
        ctx: AgentCtx,
        text: str,
        message: Mapping[str, Any],
        change: Callable[[Any], None],
    ) -> CommandReply:
        plugin, component = match.plugin, match.component
        operator = self._is_operator(ctx.chat, ctx.from_user_id)
        if component.metadata.get("permission") == "operator" and not operator:
            logger.info(
                "{} may not run {} of {}", ctx.from_user_id, component.name, plugin.plugin_id
            )
            return CommandReply(False, "", stops=True)
        arguments = {
            "message": dict(message),
            "command_name": component.name,
            "plugin_id": plugin.plugin_id,
            "matched_groups": dict(match.groups),
            "text": text,
            "stream_id": ctx.chat_key,
        }
        before = await self._hooks.hook("chat.command.before_execute", arguments, ctx=ctx)
        if before.aborted:
            return CommandReply(False, "", stops=True)
        change(before.kwargs.get("message"))
        groups = before.kwargs.get("matched_groups")
        own = ctx.called_for(plugin.native.key)
        group = ctx.chat.kind is not ChatKind.PRIVATE
        given = {
            **host_arguments(own),
            "text": str(before.kwargs.get("text", text)),
            "is_local_operator": operator,
            "is_group": group,
            "matched_groups": dict(groups) if isinstance(groups, Mapping) else {},
            "message": before.kwargs.get("message"),
            "plugin_config": dict(plugin.settings),
        }
        try:
            value = await plugin.call(component, {}, ctx=own, given=given, limit_s=plugin.tool_s)
        except BaseException as error:
            if is_cancellation(error):
                raise
            reason = str(error) if isinstance(error, ToolFailure) else type(error).__name__
            logger.opt(exception=error).error(
                "command {} of {} failed: {}", component.name, plugin.plugin_id, reason
            )
            return CommandReply(False, reason, stops=True)
        reply = reply_of(component, value)
        ended = await self._hooks.hook(
            "chat.command.after_execute",
            {
                **arguments,
                "success": reply.success,
                "response": reply.text,
                "intercept_message_level": 2 if reply.hides else int(reply.stops),
            },
            ctx=ctx,
        )
        level = ended.kwargs.get("intercept_message_level")
        if isinstance(level, int):
            return CommandReply(reply.success, reply.text, stops=level > 0, hides=level > 1)
        return reply
