"""Runs hooks and events before and after each message that the bot sends."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from nekro_core.chat import Author, ChatKey, Receipt, Record, Reply, Segments, Text
from nekro_core.compat.maibot.bot_view import BotView
from nekro_core.compat.maibot.formats.message_text import message_text
from nekro_core.compat.maibot.formats.messages import event_message_of
from nekro_core.compat.maibot.formats.segment_changes import changed_segments, with_text
from nekro_core.compat.maibot.hooks.handlers import HookRunner
from nekro_core.compat.maibot.plugin.loaded import current_call
from nekro_core.plugins.authoring.context import AgentCtx

_OF_REPLIES = ("maisaka.replyer.after_response", "maisaka.reply.before_post_process")
_OF_SENDS = ("send_service.after_build_message", "send_service.before_send")
_EVENT = "post_send_pre_process"
_BEFORE_SEND = (*_OF_REPLIES, *_OF_SENDS, _EVENT)
_AFTER_SEND = ("send_service.after_send", "post_send", "after_send")
_in_handler: ContextVar[bool] = ContextVar("nekro_maibot_sending", default=False)
"""True while a handler of a send hook is running. The hooks do not run for a message that such a
handler sends."""


@dataclass(slots=True)
class _Draft:
    """A message that is being sent. Plugins recognize it in later hooks by its time and by the
    values that they put into its ``additional_config``."""

    chat: ChatKey
    message_id: str
    time: float
    config: dict[str, Any] = field(default_factory=dict)


_draft: ContextVar[_Draft | None] = ContextVar("nekro_maibot_draft", default=None)
"""The message that the current task sends. `SendHooks.before` and `SendHooks.after` run in one
task."""


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
        draft = _Draft(chat_key, f"draft-{uuid4().hex}", self._bot.wall())
        _draft.set(draft)
        if all(isinstance(each, Text) for each in segments):
            # A message that a plugin itself sends is not a reply of the model.
            by_model = bool(run_id) and current_call() is None
            for name in _OF_REPLIES if by_model else _OF_REPLIES[1:]:
                if not self._hooks.any(name):
                    continue
                text = message_text(segments)
                about = {
                    "session_id": str(chat_key),
                    "stream_id": str(chat_key),
                    "reply_message_id": await self._bot.answered_message(chat_key),
                    "response": text,
                }
                words = await self._hooks.hook(name, about, ctx=ctx)
                segments = with_text(segments, text, words.kwargs["response"])
                if words.aborted or not segments:
                    return None
        for name in _OF_SENDS:
            changed = await self._run_hook(name, ctx, segments, draft)
            if changed is None:
                return None
            segments = changed
        return await self._run_event(ctx, segments, draft)

    async def _run_hook(
        self, name: str, ctx: AgentCtx, segments: Segments, draft: _Draft
    ) -> Segments | None:
        """Run a hook of the send service. Returns the segments to send; None if nothing is sent.

        The message that is sent is made from ``raw_message``. The texts beside it only describe the
        message, so a change of these texts has no effect.
        """
        if not self._hooks.any(name):
            return segments
        # The media are shown with their bytes, because a hook may send a medium again as a separate
        # message.
        shown = self._shown(draft, segments, binary=True)
        about = {"message": shown, "stream_id": ctx.chat_key, **_options(shown, segments)}
        done = await self._hooks.hook(name, about, ctx=ctx)
        if done.aborted:
            return None
        wanted = done.kwargs["message"]
        raw = None
        if isinstance(wanted, Mapping):
            raw = wanted.get("raw_message")
            info = wanted.get("message_info")
            config = info.get("additional_config") if isinstance(info, Mapping) else None
            draft.config = dict(config) if isinstance(config, Mapping) else draft.config
        segments = await changed_segments(ctx, segments, shown["raw_message"], raw)
        return _with_reply(segments, about, done.kwargs) or None

    async def _run_event(self, ctx: AgentCtx, segments: Segments, draft: _Draft) -> Segments | None:
        shown = self._shown(draft, segments)
        event = await self._hooks.event(_EVENT, event_message_of(shown), ctx=ctx)
        if event.aborted:
            return None
        wanted = event.kwargs["message"]
        before = shown["raw_message"]
        for key in ("raw_message", "message_segments"):
            if wanted.get(key) != before:
                return await changed_segments(ctx, segments, before, wanted.get(key)) or None
        return with_text(segments, shown["processed_plain_text"], wanted.get("plain_text")) or None

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
        draft = _draft.get()
        if draft is None or draft.chat != chat_key:
            draft = _Draft(chat_key, "", self._bot.wall())
        _draft.set(None)
        number = next((each.message_id for each in receipts if each.message_id), "")
        shown = self._shown(replace(draft, message_id=number), segments)
        about = {
            "message": shown,
            "sent": any(each.ok for each in receipts),
            "stream_id": str(chat_key),
            **_options(shown, segments),
        }
        await self._hooks.hook(_AFTER_SEND[0], about, ctx=ctx)
        for name in _AFTER_SEND[1:]:
            await self._hooks.event(name, event_message_of(shown), ctx=ctx)

    def _shown(self, draft: _Draft, segments: Segments, *, binary: bool = False) -> dict[str, Any]:
        record = Record(
            seq=0,
            chat_key=draft.chat,
            author=Author.BOT,
            segments=segments,
            time=draft.time,
            message_id=draft.message_id,
        )
        shown = self._bot.message(record, binary=binary)
        shown["message_info"]["additional_config"] |= draft.config
        return shown


def _options(shown: Mapping[str, Any], segments: Segments) -> dict[str, Any]:
    """The arguments of the hooks of the send service besides the message and its chat."""
    answered = next((each for each in segments if isinstance(each, Reply)), None)
    return {
        "processed_plain_text": shown["processed_plain_text"],
        "display_message": shown["processed_plain_text"],
        "typing": False,
        "set_reply": answered is not None,
        "reply_message_id": answered.message_id if answered else None,
        "storage_message": True,
        "show_log": True,
    }


def _with_reply(segments: Segments, before: Mapping[str, Any], now: Mapping[str, Any]) -> Segments:
    """Apply a change of ``set_reply`` and ``reply_message_id``. A message that has only a reply is
    not sent."""
    keys = ("set_reply", "reply_message_id")
    others = tuple(each for each in segments if not isinstance(each, Reply))
    if not others:
        return ()
    if all(now.get(key) == before[key] for key in keys):
        return segments
    number = str(now.get("reply_message_id") or "")
    return (Reply(number), *others) if now.get("set_reply") is True and number else others
