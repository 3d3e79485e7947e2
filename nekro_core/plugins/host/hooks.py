"""Plugins asked for what they have to say, each within its time; a fault has no say."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from loguru import logger

from nekro_core.chat import ChatMessage
from nekro_core.compat.nekro_agent.legacy_message import LegacyChatMessage
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.declarations import MsgSignal
from nekro_core.plugins.authoring.faults import is_cancellation
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.system.sync_bridge import run_bridged


@dataclass(frozen=True, slots=True)
class PromptInjection:
    """What a plugin adds to the prompt. ``plugin`` is its key."""

    plugin: str
    text: str


async def prompt_injections(
    plugins: Sequence[NekroPlugin], ctx: AgentCtx, limit_s: float
) -> tuple[PromptInjection, ...]:
    """Ask all at once; the answers come in the order of the plugins."""
    found: dict[str, str] = {}

    async def ask(plugin: NekroPlugin) -> None:
        method = plugin.prompt_inject_method
        assert method is not None
        question = partial(method, ctx.called_for(plugin.key))
        text = await hook_result(plugin, "its prompt method", question, limit_s)
        if isinstance(text, str) and text.strip():
            found[plugin.key] = text

    async with anyio.create_task_group() as tasks:
        for plugin in plugins:
            if plugin.prompt_inject_method is not None:
                tasks.start_soon(ask, plugin)
    keys = [plugin.key for plugin in plugins]
    return tuple(PromptInjection(key, found[key]) for key in keys if key in found)


async def message_signal(
    plugins: Sequence[NekroPlugin], ctx: AgentCtx, message: ChatMessage, limit_s: float
) -> MsgSignal:
    """Ask one after another, and merge what they say."""
    signals = []
    for plugin in plugins:
        if method := plugin.on_user_message_method:
            heard = LegacyChatMessage.of(message, ctx.adapter_key)
            own = ctx.called_for(plugin.key, given=heard.content_text)
            question = partial(method, own, heard)
            signals.append(await hook_signal(plugin, "its message method", question, limit_s))
    return MsgSignal.merged(signals)


async def hook_signal(
    plugin: NekroPlugin, what: str, method: Callable[[], Any], limit_s: float
) -> MsgSignal:
    """A method's signal; no opinion where it fails or gives none, with a line in the log."""
    answer = await hook_result(plugin, what, method, limit_s)
    try:
        return MsgSignal.of(answer)
    except ValueError as error:
        logger.error("plugin {}: {}: {}", plugin.key, what, error)
        return MsgSignal.CONTINUE


async def hook_result(
    plugin: NekroPlugin, what: str, method: Callable[[], Any], limit_s: float
) -> Any:
    """A method's result, or nothing where it fails or is late, with a line in the log."""
    with anyio.move_on_after(limit_s) as limit, plugin.acting():
        try:
            return await run_bridged(await_if_needed(method()))
        except BaseException as error:
            if is_cancellation(error):
                raise
            logger.exception("plugin {}: {} failed", plugin.key, what)
    if limit.cancelled_caught:
        logger.error("plugin {}: {} took over {:g} s", plugin.key, what, limit_s)
    return None


async def await_if_needed(value: Awaitable[Any] | Any) -> Any:
    """The value of what may be a coroutine: authors forget an ``async`` where it does no harm."""
    return await value if inspect.isawaitable(value) else value
