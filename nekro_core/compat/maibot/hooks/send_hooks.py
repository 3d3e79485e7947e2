"""Runs hooks and events before and after each message that the bot sends."""

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from nekro_core.chat import Author, ChatKey, Receipt, Record, Segments, Text
from nekro_core.compat.maibot.bot_view import BotView
from nekro_core.compat.maibot.formats.messages import event_message_of
from nekro_core.compat.maibot.formats.segments import InvalidSegment, segments_from
from nekro_core.compat.maibot.hooks.handlers import HookRunner
from nekro_core.plugins.authoring.context import AgentCtx

_BEFORE_SEND = (
    "maisaka.reply.before_post_process",
    "send_service.after_build_message",
    "send_service.before_send",
    "post_send_pre_process",
)
_AFTER_SEND = ("send_service.after_send", "post_send", "after_send")
_in_handler: ContextVar[bool] = ContextVar("nekro_maibot_sending", default=False)
"""Whether a handler of a send hook is running. The hooks do not run for a message that such a
handler sends."""


class SendHooks:
    """A `SendHook` for every message that the bot or a plugin sends."""

    def __init__(self, bot: BotView, hooks: HookRunner) -> None:
        self._bot = bot
        self._hooks = hooks

    async def before(self, chat_key: ChatKey, segments: Segments, run_id: str) -> Segments | None:
        """See `SendHook.before`."""
        if _in_handler.get() or not self._hooks.any(*_BEFORE_SEND):
            return segments
        token = _in_handler.set(True)
        try:
            return await self._run_before(chat_key, segments, run_id)
        finally:
            _in_handler.reset(token)

    async def _run_before(
        self, chat_key: ChatKey, segments: Segments, run_id: str
    ) -> Segments | None:
        ctx = AgentCtx(services=self._bot.services, chat=chat_key, run_id=run_id)
        shown = self._shown(chat_key, segments)
        if all(isinstance(each, Text) for each in segments):
            words = await self._hooks.hook(
                _BEFORE_SEND[0],
                {"session_id": str(chat_key), "response": shown["processed_plain_text"]},
                ctx=ctx,
            )
            if words.aborted:
                return None
            segments, shown = await self._changed(
                ctx, segments, shown, {**shown, "processed_plain_text": words.kwargs["response"]}
            )
        for name in _BEFORE_SEND[1:3]:
            about = {
                "message": shown,
                "stream_id": str(chat_key),
                "processed_plain_text": shown["processed_plain_text"],
                "typing": False,
                "set_reply": False,
            }
            done = await self._hooks.hook(name, about, ctx=ctx)
            if done.aborted:
                return None
            wanted = done.kwargs["message"]
            if done.kwargs["processed_plain_text"] != shown["processed_plain_text"]:
                text = done.kwargs["processed_plain_text"]
                wanted = {**wanted, "processed_plain_text": text}
            segments, shown = await self._changed(ctx, segments, shown, wanted)
        event = await self._hooks.event(_BEFORE_SEND[3], event_message_of(shown), ctx=ctx)
        if event.aborted:
            return None
        wanted = event.kwargs["message"]
        if wanted.get("plain_text") != shown["processed_plain_text"]:
            wanted = {**wanted, "processed_plain_text": wanted.get("plain_text")}
        segments, _ = await self._changed(ctx, segments, shown, wanted)
        return segments

    async def after(
        self, chat_key: ChatKey, segments: Segments, receipts: Sequence[Receipt]
    ) -> None:
        """See `SendHook.after`."""
        if _in_handler.get() or not self._hooks.any(*_AFTER_SEND):
            return
        token = _in_handler.set(True)
        try:
            await self._run_after(chat_key, segments, receipts)
        finally:
            _in_handler.reset(token)

    async def _run_after(
        self, chat_key: ChatKey, segments: Segments, receipts: Sequence[Receipt]
    ) -> None:
        ctx = AgentCtx(services=self._bot.services, chat=chat_key)
        number = next((each.message_id for each in receipts if each.message_id), "")
        shown = self._shown(chat_key, segments, number)
        sent = any(each.ok for each in receipts)
        about = {"message": shown, "sent": sent, "stream_id": str(chat_key)}
        await self._hooks.hook(_AFTER_SEND[0], about, ctx=ctx)
        for name in _AFTER_SEND[1:]:
            await self._hooks.event(name, event_message_of(shown), ctx=ctx)

    def _shown(self, chat_key: ChatKey, segments: Segments, number: str = "") -> dict[str, Any]:
        record = Record(
            seq=0,
            chat_key=chat_key,
            author=Author.BOT,
            segments=segments,
            time=self._bot.wall(),
            message_id=number,
        )
        return self._bot.message(record)

    async def _changed(
        self, ctx: AgentCtx, segments: Segments, shown: dict[str, Any], wanted: Any
    ) -> tuple[Segments, dict[str, Any]]:
        """Apply a handler's changes to the message. If the handler changed segments, a change of
        the text is ignored."""
        if not isinstance(wanted, dict):
            return segments, shown
        if wanted.get("raw_message") != shown["raw_message"]:
            try:
                made = tuple(await segments_from(ctx, wanted.get("raw_message")))
            except InvalidSegment:
                made = segments
            return made, self._shown(ctx.chat, made)
        words = wanted.get("processed_plain_text")
        if isinstance(words, str) and words != shown["processed_plain_text"]:
            others = [each for each in segments if not isinstance(each, Text)]
            made = (Text(words), *others) if words.strip() else tuple(others)
            return made, self._shown(ctx.chat, made)
        return segments, shown
