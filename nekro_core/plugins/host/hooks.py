"""Calls plugins' hooks, each with a time limit. A hook that fails is logged and counts as a hook
that returned None."""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from loguru import logger
from msgspec import structs

from nekro_core.chat import ChatKey, ChatMessage, Record, Segments
from nekro_core.plugins.authoring.binding import current_binding
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.declarations import MsgSignal
from nekro_core.plugins.authoring.faults import is_cancellation
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.authoring.services import Journal
from nekro_core.plugins.host.kinds import MessageChanges, MessageForm, no_changes
from nekro_core.system.sync_bridge import run_bridged


@dataclass(frozen=True, slots=True)
class PromptInjection:
    """The text that a plugin adds to the prompt. ``plugin`` is the plugin's key."""

    plugin: str
    text: str


@dataclass(frozen=True, slots=True)
class MessageSignal:
    """The merged signal of all message hooks. ``plugin`` is the key of the first plugin that gave
    this signal; empty if the signal is `MsgSignal.CONTINUE`. ``segments`` is the new content of the
    message if hooks have changed it; otherwise None."""

    signal: MsgSignal
    plugin: str = ""
    segments: Segments | None = None


async def prompt_injections(
    plugins: Sequence[NekroPlugin], ctx: AgentCtx, limit_s: float
) -> tuple[PromptInjection, ...]:
    """Call the prompt methods of all plugins at once. The result is in the order of the plugins."""
    plugins = [plugin for plugin in plugins if plugin.prompt_inject_method is not None]
    if not plugins:
        return ()
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
            tasks.start_soon(ask, plugin)
    keys = [plugin.key for plugin in plugins]
    return tuple(PromptInjection(key, found[key]) for key in keys if key in found)


async def message_signal(
    plugins: Sequence[NekroPlugin],
    ctx: AgentCtx,
    message: ChatMessage,
    limit_s: float,
    form: MessageForm,
    changes: MessageChanges = no_changes,
) -> MessageSignal:
    """Call the message hooks one after another and merge their signals. A hook whose parameter is
    not annotated with `ChatMessage` gets a new object that ``form`` makes from the message. If the
    hook changes the object, ``changes`` returns the new content, which the next hooks get."""
    plugins = [plugin for plugin in plugins if plugin.on_user_message_method]
    if not plugins:
        return MessageSignal(MsgSignal.CONTINUE)
    signals: dict[str, MsgSignal] = {}
    received = message
    for plugin in plugins:
        if method := plugin.on_user_message_method:
            own = ctx.called_for(plugin.key, given=message.text)
            given = message if plugin.wants_chat_message else form(message, ctx.adapter_key)
            question = partial(method, own, given)
            signals[plugin.key] = await hook_signal(plugin, "its message method", question, limit_s)
            if (segments := changes(message, given)) is not None:
                message = structs.replace(message, segments=segments)
    merged = MsgSignal.merged(signals.values())
    by = next((key for key, each in signals.items() if each is merged), "")
    changed = None if message is received else message.segments
    return MessageSignal(merged, "" if merged is MsgSignal.CONTINUE else by, changed)


async def hook_signal(
    plugin: NekroPlugin, what: str, method: Callable[[], Any], limit_s: float
) -> MsgSignal:
    """Call a hook and get its signal. If the hook fails or returns no valid signal, this is logged
    and the signal is `MsgSignal.CONTINUE`."""
    answer = await hook_result(plugin, what, method, limit_s)
    try:
        return MsgSignal.of(answer)
    except ValueError as error:
        logger.error("plugin {}: {}: {}", plugin.key, what, error)
        return MsgSignal.CONTINUE


async def hook_result(
    plugin: NekroPlugin, what: str, method: Callable[[], Any], limit_s: float
) -> Any:
    """Call a hook and get its result. If the hook fails or exceeds its time limit, this is logged
    and the result is None."""
    with anyio.move_on_after(limit_s) as limit, plugin.acting():
        try:
            return await run_bridged(await_if_needed(method()))
        except BaseException as error:
            if is_cancellation(error):
                raise
            logger.exception("plugin {}: {} failed", plugin.key, what)
            _count(plugin, what, error, method)
    if limit.cancelled_caught:
        logger.error("plugin {}: {} took over {:g} s", plugin.key, what, limit_s)
    return None


def _count(plugin: NekroPlugin, what: str, error: BaseException, method: Callable[[], Any]) -> None:
    binding = current_binding()
    services = binding.services if binding is not None else None
    if services is not None and services.uses is not None:
        code = getattr(inspect.unwrap(getattr(method, "func", method)), "__code__", None)
        own = str(Path(code.co_filename).parent) if code is not None else ""
        services.uses.fail(plugin.key, what, error, own)


async def await_if_needed(value: Awaitable[Any] | Any) -> Any:
    """Await a value if it can be awaited. So a hook also works if its author forgot ``async``."""
    return await value if inspect.isawaitable(value) else value


_within: ContextVar[bool] = ContextVar("nekro_system_hook", default=False)


async def system_message_signal(
    plugins: Sequence[NekroPlugin], ctx: AgentCtx, text: str, limit_s: float
) -> MsgSignal:
    """Call the hooks for system lines one after another and merge their signals."""
    signals = []
    for plugin in plugins:
        if method := plugin.on_system_message_method:
            question = partial(method, ctx.called_for(plugin.key, given=text), text)
            what = "its system message method"
            signals.append(await hook_signal(plugin, what, question, limit_s))
    return MsgSignal.merged(signals)


async def notify_reset(plugins: Sequence[NekroPlugin], ctx: AgentCtx, limit_s: float) -> None:
    """Call the plugins' reset hooks, one after another."""
    for plugin in plugins:
        if method := plugin.on_channel_reset_method:
            question = partial(method, ctx.called_for(plugin.key))
            await hook_result(plugin, "its reset method", question, limit_s)


async def notify_erasure(
    plugins: Sequence[NekroPlugin], ctx: AgentCtx, adapter: str, user_id: str, limit_s: float
) -> tuple[int, list[str]]:
    """Call the plugins' hooks that erase a person, one after another. Returns how many things were
    deleted, and a sentence about each plugin that failed."""
    gone, failed = 0, []
    for plugin in plugins:
        if method := plugin.on_user_erase_method:
            question = partial(method, ctx.called_for(plugin.key), adapter, user_id)

            async def erase(question: Callable[[], Awaitable[int | None]] = question) -> int:
                return await question() or 0

            answer = await hook_result(plugin, "its erase method", erase, limit_s)
            if isinstance(answer, int):
                gone += answer
            else:
                failed.append(f"plugin {plugin.key}: its erase method failed")
    return gone, failed


class HookedJournal:
    """A journal that calls the plugins' hooks before it adds a system line."""

    def __init__(
        self, journal: Journal, ask: Callable[[ChatKey, str, str], Awaitable[MsgSignal]]
    ) -> None:
        self._journal = journal
        self._ask = ask

    async def note(
        self, chat_key: ChatKey, text: str, *, run_id: str = "", trigger: bool = False
    ) -> None:
        """See `nekro_core.plugins.authoring.services.Journal`."""
        signal = MsgSignal.CONTINUE
        # Do not call hooks for a line that a hook adds: this could be an endless loop.
        if not _within.get():
            with _asking():
                signal = await self._ask(chat_key, text, run_id)
        if signal is MsgSignal.BLOCK_ALL:
            return
        wakes = trigger and signal is not MsgSignal.BLOCK_TRIGGER
        wakes = wakes or signal is MsgSignal.FORCE_TRIGGER
        await self._journal.note(chat_key, text, run_id=run_id, trigger=wakes)

    async def newest(self, chat_key: ChatKey, limit: int) -> list[Record]:
        """See `nekro_core.plugins.authoring.services.Journal`."""
        return await self._journal.newest(chat_key, limit)


@contextmanager
def _asking() -> Iterator[None]:
    token = _within.set(True)
    try:
        yield
    finally:
        _within.reset(token)
