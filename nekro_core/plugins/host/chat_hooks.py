"""Hooks about a chat's record: system lines that come into it, and its new beginning."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial

from nekro_core.chat import ChatKey, Record
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.declarations import MsgSignal
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.authoring.services import Journal
from nekro_core.plugins.host.hooks import hook_result, hook_signal

_within: ContextVar[bool] = ContextVar("nekro_system_hook", default=False)


async def system_message_signal(
    plugins: Sequence[NekroPlugin], ctx: AgentCtx, text: str, limit_s: float
) -> MsgSignal:
    """Ask one after another, and merge what they say."""
    signals = []
    for plugin in plugins:
        if method := plugin.on_system_message_method:
            question = partial(method, ctx.called_for(plugin.key, given=text), text)
            what = "its system message method"
            signals.append(await hook_signal(plugin, what, question, limit_s))
    return MsgSignal.merged(signals)


async def notify_reset(plugins: Sequence[NekroPlugin], ctx: AgentCtx, limit_s: float) -> None:
    """Tell all, one after another, that the chat begins anew."""
    for plugin in plugins:
        if method := plugin.on_channel_reset_method:
            question = partial(method, ctx.called_for(plugin.key))
            await hook_result(plugin, "its reset method", question, limit_s)


async def notify_erasure(
    plugins: Sequence[NekroPlugin], ctx: AgentCtx, adapter: str, user_id: str, limit_s: float
) -> tuple[int, list[str]]:
    """Have all forget a person, one after another: how many things went, and who failed."""
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
    """A journal that asks the plugins before a line of theirs comes into it."""

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
        # A line that a hook adds would be asked about for ever.
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
