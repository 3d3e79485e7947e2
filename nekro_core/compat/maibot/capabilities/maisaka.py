"""The capabilities behind ``ctx.maisaka`` and ``ctx.frequency``: the history, the replies and the
talk value of a chat (in MaiBot, a number that says how often the bot talks)."""

import base64
from collections.abc import Mapping
from typing import Any

import anyio

from nekro_core.chat import Image, plain_text
from nekro_core.compat.maibot.capabilities.llm import ask
from nekro_core.compat.maibot.capability import (
    Answer,
    CapabilityCall,
    CapabilityEntry,
    CapabilityError,
    success,
)
from nekro_core.compat.maibot.formats.messages import readable
from nekro_core.compat.maibot.formats.prompt_changes import REPLY_TIME, ShownPrompt
from nekro_core.compat.maibot.formats.segments import segments_from
from nekro_core.llm.model import PromptMessage

_HISTORY = 30


async def append(call: CapabilityCall) -> Answer:
    """``maisaka.context.append``: adds a record to the chat's history. The model reads the record;
    it is not sent to the chat."""
    chat = call.chat()
    words = call.text("visible_text")
    if not words:
        pieces = await segments_from(call.context(chat), call.args.get("segments"))
        words = plain_text(pieces)
    if not words.strip():
        raise CapabilityError("maisaka.context.append: the text is empty")
    user = call.args.get("user_info")
    name = user.get("user_nickname") if isinstance(user, Mapping) else ""
    line = f"{name}: {words}" if name else words
    await _note(call, f"[{call.text('source_kind') or call.plugin.plugin_id}] {line}")
    return success(message_id=call.text("message_id"), appended=True)


async def trigger(call: CapabilityCall) -> Answer:
    """``maisaka.proactive.trigger``: wakes the bot in a chat and tells it what to do."""
    intent = call.text("intent", needed=True)
    reason = call.text("reason")
    line = f"[{call.plugin.plugin_id}] {intent}" + (f" (why: {reason})" if reason else "")
    await _note(call, line, wake=True)
    return success(triggered=True)


async def reply(call: CapabilityCall) -> Answer:
    """``maisaka.reply.generate``: lets the model write a reply with the bot's persona. The reply is
    returned and not sent. Raises `CapabilityError` if a hook stops the reply."""
    chat, bot = call.chat(), call.bot
    records = await bot.store.messages.newest(chat, _HISTORY)
    history = readable([bot.message(each) for each in records if not each.recalled])
    session = {"session_id": str(chat), "stream_id": str(chat)}
    reference = call.text("reference")
    wanted = await _hooked(
        call,
        "maisaka.replyer.before_request",
        {
            **session,
            "reference": reference,
            "reference_info": reference,
            "reply_reason": "",
            "extra_prompt": "",
            "reply_tool_args": {},
            "task_name": "replyer",
            "model_name": call.text("model_name"),
        },
    )
    if wanted["reference"] == reference:
        wanted["reference"] = wanted["reference_info"]
    asked = f"Write the next message. {wanted['reference']}"
    prompt = f"What was said:\n{history}\n\n{asked}"
    if wanted["extra_prompt"]:
        prompt = f"{prompt}\n{wanted['extra_prompt']}"
    messages: tuple[PromptMessage, ...] = (PromptMessage.of("user", prompt),)
    if system := "\n".join(filter(None, (bot.persona, call.text("format_instruction")))):
        messages = (PromptMessage.of("system", system), *messages)
    shown = ShownPrompt.of(messages, bot.now(), REPLY_TIME)
    asking = await _hooked(
        call, "maisaka.replyer.before_model_request", {**session, **shown.kwargs()}
    )
    answer = await ask(call, shown.changed(asking))
    after = await _hooked(
        call, "maisaka.replyer.after_response", {**session, "response": answer["response"]}
    )
    return success(text=str(after["response"]).strip(), selected_expression_ids=[])


async def _hooked(call: CapabilityCall, hook: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Run a hook, and return its arguments with the changes. Raises `CapabilityError` if a handler
    stops the reply."""
    outcome = await call.hooks.hook(hook, kwargs)
    if outcome.aborted:
        raise CapabilityError(f"maisaka.reply.generate: a plugin's hook {hook} stopped it")
    return dict(outcome.kwargs)


async def resolve_image(call: CapabilityCall) -> Answer:
    """``maisaka.context.resolve_image``: a picture in a message, found by the message's id."""
    source = call.text("source_id", needed=True)
    messages = call.bot.store.messages
    chat = call.chat()
    if source.startswith("seq:") and source[4:].isdigit():
        record = await messages.get(int(source[4:]))
    else:
        record = await messages.by_message_id(chat, source)
    if record is None or record.chat_key != chat:
        raise CapabilityError(f"maisaka.context.resolve_image: this chat has no message {source!r}")
    pictures = [each.media for each in record.segments if isinstance(each, Image)]
    index = call.args.get("index", 0)
    if not isinstance(index, int) or not 0 <= index < len(pictures):
        raise CapabilityError(
            f"maisaka.context.resolve_image: the message has {len(pictures)} pictures"
        )
    try:
        data = await anyio.Path(pictures[index].path).read_bytes()
    except OSError:
        raise CapabilityError("maisaka.context.resolve_image: the picture was deleted") from None
    encoded = base64.b64encode(data).decode()
    return success(binary_data_base64=encoded, binary_hash=pictures[index].sha256)


async def talk_value(call: CapabilityCall) -> Answer:
    """``frequency.get_current_talk_value`` and ``get_adjust``: the talk value that a plugin has set
    for a chat; 1.0 by default."""
    return success(value=call.bot.talk_values.get(str(call.chat("chat_id", "stream_id")), 1.0))


async def set_adjust(call: CapabilityCall) -> Answer:
    """``frequency.set_adjust``: stores a talk value for a chat. It has no effect on the bot."""
    value = call.args.get("value")
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise CapabilityError(f"frequency.set_adjust: value {value!r} is no number")
    call.bot.talk_values[str(call.chat("chat_id", "stream_id"))] = float(value)
    return success()


async def _note(call: CapabilityCall, line: str, *, wake: bool = False) -> None:
    chat = call.chat()
    ctx = call.writing_context(chat)
    await ctx.services.journal.note(chat, line, run_id=ctx.run_id, trigger=wake)


TABLE: Mapping[str, CapabilityEntry] = {
    "maisaka.context.append": CapabilityEntry(append, "works; pictures are told of in words"),
    "maisaka.context.resolve_image": CapabilityEntry(resolve_image),
    "maisaka.proactive.trigger": CapabilityEntry(trigger),
    "maisaka.reply.generate": CapabilityEntry(reply, "works; no expressions are learned here"),
    "frequency.get_current_talk_value": CapabilityEntry(talk_value),
    "frequency.get_adjust": CapabilityEntry(talk_value),
    "frequency.set_adjust": CapabilityEntry(
        set_adjust, "partly: kept, and without effect: triggers are the operator's"
    ),
}
