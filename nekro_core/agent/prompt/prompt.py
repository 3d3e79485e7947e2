"""Writes the prompt: a stable prefix, the chat's history, then the turn so far.

Providers cache the beginning of a prompt if it did not change. So the order is: rules, tools and
persona; history, whose beginning moves in jumps; the time and what is to be answered; then a reply
and its report for each step. The same input gives the same prompt.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import lru_cache

from nekro_core.agent.prompt.functions import FunctionSet
from nekro_core.agent.prompt.quoting import PromptContent, PromptLines, QuotedText, quote_lines
from nekro_core.agent.prompt.transcript import (
    UPLOADS,
    media_of,
    person_label,
    shortened,
    transcript,
)
from nekro_core.agent.settings import PromptSettings
from nekro_core.chat import Author, ChatKey, ChatKind, Record, Sender
from nekro_core.llm.model import (
    ChatRequest,
    FunctionCall,
    ImagePart,
    ModelProfile,
    Part,
    PromptMessage,
    TextPart,
)
from nekro_core.llm.tokens import estimate_tokens

_JUMP = 16
"""The beginning of the history moves by so many messages at once."""
_MARGIN = 512
"""Tokens that stay free, since sizes are estimates."""
_LEAST_HISTORY = 1000
"""Tokens that the history gets at least, however long the prefix and the steps are."""
_OLD_REPORT = 600
"""Characters of an old reply or report that was shortened to make room."""

_OTHERS_WAIT = (
    '[note] What is marked "not to be answered now" others asked. Do nothing about it: you are '
    "asked again for each of them, right after this."
)
_NOBODY = Sender("")

_prefix_tokens = lru_cache(8)(estimate_tokens)
"""Counting a prefix of 15,000 characters takes half a millisecond, and it stays the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """A call and the answer that the model gets. ``media`` are pictures and sounds. An answer to a
    call cannot contain these, so they follow in a separate message."""

    call: FunctionCall
    text: str
    media: tuple[Part, ...] = ()
    failed: bool = False
    ends: bool = False
    """Whether the model need not read the answer: the call sent something and returned no more than
    a word, or did something that was noted in the chat's history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedStep:
    """A finished step of the current turn, for the prompt of the next one.

    ``reply`` is the model's reply, up to where it was cut; ``report`` says what it did. ``calls``
    are the native calls. ``through_seq`` is the newest record that the step's prompt showed.
    """

    reply: str
    report: tuple[PromptContent, ...]
    through_seq: int
    calls: tuple[CallAnswer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptView:
    """What a prompt shows. ``records`` are oldest first and include those that arrived during the
    turn. ``asker`` asks the ``unanswered`` ones; other people ask the ``waiting`` ones, which get
    separate turns. ``run_ids`` are the turn's own runs; the reports show what these sent.
    ``pictures`` are by the path of their medium. ``preface`` says what an interrupted turn did
    before."""

    chat_key: ChatKey
    records: Sequence[Record]
    unanswered: Collection[int]
    run_ids: Collection[str]
    steps: Sequence[FinishedStep]
    own_accounts: Collection[str]
    now: float
    zone: tzinfo | None
    pictures: Mapping[str, ImagePart]
    preface: PromptLines | None = None
    waiting: Collection[int] = ()
    asker: Sender = _NOBODY


def build_prompt(
    system: str,
    view: PromptView,
    *,
    settings: PromptSettings,
    profile: ModelProfile,
    max_tokens: int,
    functions: FunctionSet | None = None,
) -> ChatRequest:
    """Write the request for the next step, within the model's context."""
    room = profile.context_tokens - max_tokens - _prefix_tokens(system) - _MARGIN
    room -= functions.tokens if functions else 0
    steps = _step_messages(view, settings, room // 2)
    used = sum(_tokens(message) for message in steps)
    first_through = view.steps[0].through_seq if view.steps else _newest(view.records)
    past = [record for record in _shown(view) if record.seq <= first_through]
    opening = _opening(past, view, settings, max(room - used, _LEAST_HISTORY))
    return ChatRequest(
        messages=(PromptMessage.of("system", system), opening, *steps),
        max_tokens=max_tokens,
        functions=functions.offered if functions else (),
        chat=str(view.chat_key),
    )


def _newest(records: Sequence[Record]) -> int:
    return records[-1].seq if records else 0


def _shown(view: PromptView) -> list[Record]:
    """Records that a prompt may show: without recalled ones, and without messages of the turn
    itself, which the reports show."""
    return [
        record
        for record in view.records
        if not record.recalled
        and not (record.author is Author.BOT and record.run_id in view.run_ids)
    ]


def _opening(
    past: Sequence[Record], view: PromptView, settings: PromptSettings, room: int
) -> PromptMessage:
    lines = _history(past, view, settings, room)
    now = datetime.fromtimestamp(view.now, view.zone)
    text = [_chat_line(view.chat_key), "", *lines, "", f"[now] {now:%Y-%m-%d %H:%M %A}"]
    if view.preface:
        text.append(view.preface.text(settings.observation_chars))
    unanswered = [r for r in past if r.seq in view.unanswered]
    if unanswered:
        count = f"{len(unanswered)} messages" if len(unanswered) > 1 else "the message"
        by = (
            f" {person_label(view.asker)} asks you."
            if view.asker.user_id and _is_shared(view)
            else ""
        )
        text.append(f"[task]{by} Answer {count} marked as unanswered.")
    else:
        text.append("[task] Act on the newest lines above, if there is anything to do.")
    if any(record.seq in view.waiting for record in past):
        text.append(_OTHERS_WAIT)
    return PromptMessage("user", (TextPart("\n".join(text)), *_seen(past, view, settings)))


def _is_shared(view: PromptView) -> bool:
    """Whether the prompt must say who asks: it is clear in a private chat with one person."""
    people = {record.sender.user_id for record in view.records if record.author is Author.PERSON}
    return view.chat_key.kind is not ChatKind.PRIVATE or len(people) > 1


def _chat_line(chat_key: ChatKey) -> str:
    match chat_key.kind:
        case ChatKind.PRIVATE:
            return f"[chat] {chat_key}, a private chat with one person"
        case ChatKind.GROUP:
            return f"[chat] {chat_key}, a group"
    return f"[chat] {chat_key}, a channel"


def _history(
    past: Sequence[Record], view: PromptView, settings: PromptSettings, room: int
) -> list[str]:
    """The newest records that fit. Records that are to be answered are always among them, shortened
    if necessary: one enormous message must not displace the rest."""
    wanted = list(past)
    if len(wanted) > settings.history:
        first = wanted[-settings.history].seq
        boundary = first + (-first % _JUMP)
        after = [r for r in wanted if r.seq >= boundary or r.seq in view.unanswered]
        wanted = after if len(after) * 2 >= settings.history else wanted[-settings.history :]
    limit = settings.message_chars
    while True:
        lines = transcript(
            wanted,
            zone=view.zone,
            limit=limit,
            unanswered=view.unanswered,
            waiting=view.waiting,
            own=view.own_accounts,
        )
        costs = [estimate_tokens(line) + 1 for line in lines]
        newest_first = range(len(lines) - 1, -1, -1)
        must = {i for i in newest_first if wanted[i].seq in view.unanswered} or {len(lines) - 1}
        left = room - sum(costs[i] for i in must if i >= 0)
        if left >= 0 or limit <= 200:
            break
        limit //= 2
    keep = set(must)
    for index in newest_first:
        if index in keep:
            continue
        left -= costs[index]
        if left < 0:
            break
        keep.add(index)
    if left < 0 and limit <= 200:
        # More unanswered messages than fit at their shortest: the newest of them.
        keep = set(sorted(keep)[-max(room // 120, 1) :])
    return [line for index, line in enumerate(lines) if index in keep]


def _seen(past: Sequence[Record], view: PromptView, settings: PromptSettings) -> list[Part]:
    """The newest pictures of the history, each named by its place in the box."""
    parts: list[Part] = []
    shown = 0
    for record in reversed(past):
        for media in reversed(media_of(record)):
            if shown < settings.images and (picture := view.pictures.get(media.path)):
                shown += 1
                name = media.path.replace("\\", "/").rpartition("/")[2]
                parts[:0] = [TextPart(f"[picture] {UPLOADS}/{name}"), picture]
    return parts


def _step_messages(view: PromptView, settings: PromptSettings, room: int) -> list[PromptMessage]:
    """Each step's reply, and its report with the records that arrived meanwhile. Old steps are
    shortened to make room."""
    messages: list[PromptMessage] = []
    ends = [step.through_seq for step in view.steps[1:]] + [_newest(view.records)]
    for position in range(len(view.steps) - 1, -1, -1):
        step = view.steps[position]
        arrived = [r for r in _shown(view) if step.through_seq < r.seq <= ends[position]]
        arrived = [r for r in arrived if r.author is not Author.BOT]
        shown = _shown_step(step, arrived, view, settings, short=False)
        cost = sum(map(_tokens, shown))
        if cost > room and position < len(view.steps) - 1:
            shown = _shown_step(step, arrived, view, settings, short=True)
            cost = sum(map(_tokens, shown))
        room -= cost
        messages[:0] = shown
    return messages


def _shown_step(
    step: FinishedStep,
    arrived: Sequence[Record],
    view: PromptView,
    settings: PromptSettings,
    *,
    short: bool,
) -> list[PromptMessage]:
    limit = _OLD_REPORT if short else settings.observation_chars
    report: list[Part] = []
    for part in step.report:
        if isinstance(part, PromptLines):
            report.append(TextPart(part.text(limit)))
        elif not short:
            report.append(part)
    if arrived:
        lines = transcript(
            arrived[-settings.history :],
            zone=view.zone,
            limit=_OLD_REPORT if short else settings.message_chars,
            unanswered=view.unanswered,
            waiting=view.waiting,
            own=view.own_accounts,
        )
        report.append(TextPart("\n".join(["", "[chat] arrived meanwhile:", *lines])))
    if step.calls:
        return _called(step, report, limit=limit, short=short)
    reply = shortened(step.reply, limit) if step.reply.strip() else "(empty)"
    return [PromptMessage.of("assistant", reply), PromptMessage("user", tuple(report))]


def _called(
    step: FinishedStep, report: list[Part], *, limit: int, short: bool
) -> list[PromptMessage]:
    """A step of native calls: the calls, each call's answer, then the report. Answers are within
    their bound already; ``short`` shortens old ones further."""
    calls = tuple(each.call for each in step.calls)
    words = step.reply
    if short:
        calls = tuple(_without_bulk(call, limit) for call in calls)
        words = shortened(words, limit)
    parts = (TextPart(words),) if words.strip() else ()
    messages = [PromptMessage("assistant", parts, calls=calls)]
    for each in step.calls:
        most = limit if short else max(limit, len(each.text))
        answer = (TextPart(_answer(each).text(most)),)
        messages.append(PromptMessage("tool", answer, answers=each.call.call_id))
    for each in () if short else step.calls:
        if each.media:
            report[:0] = _with_words_marked(each, limit)
    if report:
        messages.append(PromptMessage("user", tuple(report)))
    return messages


def _with_words_marked(each: CallAnswer, limit: int) -> list[Part]:
    """The pictures and sounds of an answer, with its quoted words about them."""
    head = PromptLines((f"[result] of {each.call.name}, to see or hear:",))
    return [
        TextPart(head.text(limit)),
        *(
            TextPart(quote_lines(part.text, limit)) if isinstance(part, TextPart) else part
            for part in each.media
        ),
    ]


def _answer(each: CallAnswer) -> PromptLines:
    """The answer to a call, as quoted text. Only the first line of a failure is the program's."""
    if not each.failed:
        return PromptLines((QuotedText(each.text),))
    head, _, rest = each.text.partition("\n")
    return PromptLines((head, QuotedText(rest)) if rest else (head,))


def _without_bulk(call: FunctionCall, limit: int) -> FunctionCall:
    if len(call.written) <= limit:
        return call
    return replace(call, written=json.dumps({"left_out": f"{len(call.written)} characters"}))


def _tokens(message: PromptMessage) -> int:
    total = 4 + sum(estimate_tokens(f"{call.name}{call.written}") for call in message.calls)
    for part in message.parts:
        total += estimate_tokens(part.text) if isinstance(part, TextPart) else 800
    return total
