"""What the bot says: the hooks and events around it."""

from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from nekro_core.chat import Author, ChatKey, Receipt, Record, Segments, Text
from nekro_core.compat.maibot.capabilities.call import CapabilityError
from nekro_core.compat.maibot.capabilities.send import segments as segments_of
from nekro_core.compat.maibot.wire import event_message_of
from nekro_core.plugins.authoring.context import AgentCtx

if TYPE_CHECKING:
    from nekro_core.compat.maibot.host import MaiBotHost

_BEFORE_SEND = (
    "maisaka.reply.before_post_process",
    "send_service.after_build_message",
    "send_service.before_send",
    "post_send_pre_process",
)
_inside: ContextVar[bool] = ContextVar("nekro_maibot_sending", default=False)
"""A handler that sends something is not asked about that in turn."""
_AFTER_SEND = ("send_service.after_send", "post_send", "after_send")
_ASK = ("maisaka.planner.before_request", "on_plan")
_ANSWERED = ("maisaka.planner.after_response", "post_llm", "after_llm")


class SendHooks:
    """A `SendHook`: everything that the bot sends, plugins' own messages too."""

    def __init__(self, host: "MaiBotHost") -> None:
        self._host = host

    async def before(self, chat_key: ChatKey, segments: Segments, run_id: str) -> Segments | None:
        """See `SendHook.before`."""
        stages = self._host.stages
        if _inside.get() or not stages.any(*_BEFORE_SEND):
            return segments
        token = _inside.set(True)
        try:
            return await self._staged(chat_key, segments, run_id)
        finally:
            _inside.reset(token)

    async def _staged(self, chat_key: ChatKey, segments: Segments, run_id: str) -> Segments | None:
        stages = self._host.stages
        ctx = AgentCtx(services=self._host.ports.services, chat=chat_key, run_id=run_id)
        shown = self._shown(chat_key, segments)
        if all(isinstance(each, Text) for each in segments):
            words = await stages.hook(
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
            done = await stages.hook(name, about, ctx=ctx)
            if done.aborted:
                return None
            wanted = done.kwargs["message"]
            if done.kwargs["processed_plain_text"] != shown["processed_plain_text"]:
                text = done.kwargs["processed_plain_text"]
                wanted = {**wanted, "processed_plain_text": text}
            segments, shown = await self._changed(ctx, segments, shown, wanted)
        told = await stages.event(_BEFORE_SEND[3], event_message_of(shown), ctx=ctx)
        if told.aborted:
            return None
        wanted = told.kwargs["message"]
        if wanted.get("plain_text") != shown["processed_plain_text"]:
            wanted = {**wanted, "processed_plain_text": wanted.get("plain_text")}
        segments, _ = await self._changed(ctx, segments, shown, wanted)
        return segments

    async def after(
        self, chat_key: ChatKey, segments: Segments, receipts: Sequence[Receipt]
    ) -> None:
        """See `SendHook.after`."""
        stages = self._host.stages
        if _inside.get() or not stages.any(*_AFTER_SEND):
            return
        token = _inside.set(True)
        try:
            await self._told(chat_key, segments, receipts)
        finally:
            _inside.reset(token)

    async def _told(
        self, chat_key: ChatKey, segments: Segments, receipts: Sequence[Receipt]
    ) -> None:
        stages = self._host.stages
        ctx = AgentCtx(services=self._host.ports.services, chat=chat_key)
        number = next((each.message_id for each in receipts if each.message_id), "")
        shown = self._shown(chat_key, segments, number)
        sent = any(each.ok for each in receipts)
        about = {"message": shown, "sent": sent, "stream_id": str(chat_key)}
        await stages.hook(_AFTER_SEND[0], about, ctx=ctx)
        for name in _AFTER_SEND[1:]:
            await stages.event(name, event_message_of(shown), ctx=ctx)

    def _shown(self, chat_key: ChatKey, segments: Segments, number: str = "") -> dict[str, Any]:
        record = Record(
            seq=0,
            chat_key=chat_key,
            author=Author.BOT,
            segments=segments,
            time=self._host.wall(),
            message_id=number,
        )
        return self._host.message(record)

    async def _changed(
        self, ctx: AgentCtx, segments: Segments, shown: dict[str, Any], wanted: Any
    ) -> tuple[Segments, dict[str, Any]]:
        """The pieces after a handler changed the message: its pieces, or its words."""
        if not isinstance(wanted, dict):
            return segments, shown
        if wanted.get("raw_message") != shown["raw_message"]:
            try:
                made = tuple(await segments_of(ctx, wanted.get("raw_message")))
            except CapabilityError:
                made = segments
            return made, self._shown(ctx.chat, made)
        words = wanted.get("processed_plain_text")
        if isinstance(words, str) and words != shown["processed_plain_text"]:
            others = [each for each in segments if not isinstance(each, Text)]
            made = (Text(words), *others) if words.strip() else tuple(others)
            return made, self._shown(ctx.chat, made)
        return segments, shown
