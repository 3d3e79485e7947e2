"""Writes the prompt: a stable prefix, the chat's history, then the turn so far.

Providers cache the beginning of a prompt while it does not change. So the order is: rules, tools
and persona; the history, whose beginning moves in jumps; the time, and which messages to answer;
then, for each step, the reply and its report. The same input gives the same prompt.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from functools import lru_cache

from nekro_core.agent.prompt.functions import FunctionSet
from nekro_core.agent.prompt.quoting import PromptContent, PromptLines, QuotedText, quote_lines
from nekro_core.agent.prompt.sources import OWN, PromptSources, ShownRecord
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
"""If possible, the history in a prompt begins at a sequence number that is a multiple of this. So
its beginning seldom changes, and providers can cache it."""
_MARGIN = 512
"""Number of tokens that stay unused, because all sizes are estimates."""
_LEAST_HISTORY = 1000
"""Minimum number of tokens for the history, however long the prefix and the steps are."""
_OLD_REPORT = 600
"""Maximum number of characters of an old reply or report that is shortened to save space."""

_OTHERS_WAIT = (
    '[note] What is marked "not to be answered now" others asked. Do nothing about it: you are '
    "asked again for each of them, right after this."
)
_NOBODY = Sender("")

_prefix_tokens = lru_cache(8)(estimate_tokens)
"""Cached: counting a prefix of 15,000 characters takes half a millisecond, and the prefix rarely
changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """A native call and its answer for the model. ``media`` are pictures and sounds. The answer to
    a call cannot contain media, so they follow in a separate message."""

    call: FunctionCall
    text: str
    media: tuple[Part, ...] = ()
    failed: bool = False
    ends: bool = False
    """Whether the model does not need to read the answer. True if the call sent a message and
    returned nothing of use, or if its effect was noted in the chat's history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedStep:
    """A finished step of the current turn, for the prompt of the next step.

    ``reply`` is the model's reply, up to the point where it was cut. ``report`` says what the
    reply's code or calls did. ``calls`` are the native calls. ``through_seq`` is the newest record
    that the step's prompt showed.
    """

    reply: str
    report: tuple[PromptContent, ...]
    through_seq: int
    calls: tuple[CallAnswer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptView:
    """The content of a prompt. ``records`` are oldest first and include records that arrived during
    the turn. ``unanswered`` are the questions of ``asker``; ``waiting`` are the questions of other
    people, who get separate turns. ``run_ids`` are the turn's runs. Their messages are left out of
    the history, because the steps' reports show them. ``pictures`` maps the path of a medium to its
    picture, ``captions`` to words about it for a model that does not see it. For a resumed turn,
    ``preface`` says what the turn did before the interruption."""

    chat_key: ChatKey
    records: Sequence[Record]
    unanswered: Collection[int]
    run_ids: Collection[str]
    steps: Sequence[FinishedStep]
    own_accounts: Collection[str]
    now: float
    zone: tzinfo | None
    pictures: Mapping[str, ImagePart]
    captions: Mapping[str, str] = field(default_factory=dict)
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
    sources: PromptSources | None = None,
) -> ChatRequest:
    """Write the request for the next step, within the model's context size. What the texts of the
    messages are made of is added to ``sources``."""
    sources = sources or PromptSources()
    sources.use_form(view.zone, view.own_accounts)
    room = profile.context_tokens - max_tokens - _prefix_tokens(system) - _MARGIN
    room -= functions.tokens if functions else 0
    steps = _step_messages(view, settings, room // 2, sources)
    used = sum(_tokens(message) for message in steps)
    first_through = view.steps[0].through_seq if view.steps else _newest(view.records)
    past = [record for record in _shown(view) if record.seq <= first_through]
    opening = _opening(past, view, settings, max(room - used, _LEAST_HISTORY), sources)
    return ChatRequest(
        messages=(PromptMessage.of("system", system), opening, *steps),
        max_tokens=max_tokens,
        functions=functions.offered if functions else (),
        chat=str(view.chat_key),
    )


def _newest(records: Sequence[Record]) -> int:
    return records[-1].seq if records else 0


def _shown(view: PromptView) -> list[Record]:
    """Return the records that a prompt may show. Recalled records are left out, and messages of
    this turn too, because the reports show them."""
    return [
        record
        for record in view.records
        if not record.recalled
        and not (record.author is Author.BOT and record.run_id in view.run_ids)
    ]


def _opening(
    past: Sequence[Record],
    view: PromptView,
    settings: PromptSettings,
    room: int,
    sources: PromptSources,
) -> PromptMessage:
    shown = _history(past, view, settings, room)
    now = f"[now] {datetime.fromtimestamp(view.now, view.zone):%Y-%m-%d %H:%M %A}"
    text = [_chat_line(view.chat_key), "", *(each.line for each in shown), "", now]
    sources.add_text("chat", text[0], scope=OWN)
    sources.add_records(shown)
    sources.add_text("now", now, scope=OWN)
    if view.preface:
        text.append(view.preface.text(settings.observation_chars))
        sources.add_text("before", text[-1])
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
    sources.add_text("task", "\n".join(text[text.index(now) + 1 + bool(view.preface) :]))
    return PromptMessage("user", (TextPart("\n".join(text)), *_seen(past, view, settings, sources)))


def _is_shared(view: PromptView) -> bool:
    """Return whether the prompt must say who asks. In a private chat with one person it need
    not."""
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
) -> list[ShownRecord]:
    """Return the lines of the newest records that fit. Unanswered records are included first. If
    necessary, all messages are shortened, so that one enormous message does not displace the
    others."""
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
        # Even shortened, the unanswered messages do not all fit: keep the newest.
        keep = set(sorted(keep)[-max(room // 120, 1) :])
    return [
        _shown_record(wanted[index], line, limit, view)
        for index, line in enumerate(lines)
        if index in keep
    ]


def _shown_record(record: Record, line: str, limit: int, view: PromptView) -> ShownRecord:
    mark = 1 if record.seq in view.unanswered else 2 if record.seq in view.waiting else 0
    return ShownRecord(seq=record.seq, line=line, limit=limit, mark=mark)


def _seen(
    past: Sequence[Record], view: PromptView, settings: PromptSettings, sources: PromptSources
) -> list[Part]:
    """Return the newest pictures of the history, each with its path in the box."""
    parts: list[Part] = []
    shown = 0
    for record in reversed(past):
        for index, media in reversed(list(enumerate(media_of(record)))):
            if shown < settings.images and (picture := view.pictures.get(media.path)):
                shown += 1
                name = media.path.replace("\\", "/").rpartition("/")[2]
                parts[:0] = [TextPart(f"[picture] {UPLOADS}/{name}"), picture]
                sources.add_text("picture", f"[picture] {UPLOADS}/{name}", scope=OWN)
                sources.pictures[id(picture.data)] = (record.seq, index)
            elif shown < settings.images and (caption := view.captions.get(media.path)):
                shown += 1
                name = media.path.replace("\\", "/").rpartition("/")[2]
                head = f"[picture] {UPLOADS}/{name}, as another model describes it:"
                parts[:0] = [TextPart(f"{head}\n{quote_lines(caption, settings.message_chars)}")]
    return parts


def _step_messages(
    view: PromptView, settings: PromptSettings, room: int, sources: PromptSources
) -> list[PromptMessage]:
    """Return the messages of each step: its reply, and its report with the records that arrived
    meanwhile. Old steps are shortened if the space does not suffice."""
    messages: list[PromptMessage] = []
    ends = [step.through_seq for step in view.steps[1:]] + [_newest(view.records)]
    for position in range(len(view.steps) - 1, -1, -1):
        step = view.steps[position]
        arrived = [r for r in _shown(view) if step.through_seq < r.seq <= ends[position]]
        arrived = [r for r in arrived if r.author is not Author.BOT]
        short = False
        shown = _shown_step(step, arrived, view, settings, short=short)
        cost = sum(map(_tokens, shown))
        if cost > room and position < len(view.steps) - 1:
            short = True
            shown = _shown_step(step, arrived, view, settings, short=short)
            cost = sum(map(_tokens, shown))
        sources.add_records(_arrived(arrived, view, settings, short=short))
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
        lines = [each.line for each in _arrived(arrived, view, settings, short=short)]
        report.append(TextPart("\n".join(["", "[chat] arrived meanwhile:", *lines])))
    if step.calls:
        return _called(step, report, limit=limit, short=short)
    reply = shortened(step.reply, limit) if step.reply.strip() else "(empty)"
    return [PromptMessage.of("assistant", reply), PromptMessage("user", tuple(report))]


def _arrived(
    arrived: Sequence[Record], view: PromptView, settings: PromptSettings, *, short: bool
) -> list[ShownRecord]:
    """Return the lines of the records that arrived during a step."""
    records = arrived[-settings.history :]
    limit = _OLD_REPORT if short else settings.message_chars
    lines = transcript(
        records,
        zone=view.zone,
        limit=limit,
        unanswered=view.unanswered,
        waiting=view.waiting,
        own=view.own_accounts,
    )
    return [
        _shown_record(each, line, limit, view) for each, line in zip(records, lines, strict=True)
    ]


def _called(
    step: FinishedStep, report: list[Part], *, limit: int, short: bool
) -> list[PromptMessage]:
    """Return the messages of a step with native calls: the calls, each call's answer, then the
    report. Answers are already within their length limit; ``short`` shortens the answers of old
    steps further."""
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
    """Return the pictures and sounds of an answer. Texts between them are quoted."""
    head = PromptLines((f"[result] of {each.call.name}, to see or hear:",))
    return [
        TextPart(head.text(limit)),
        *(
            TextPart(quote_lines(part.text, limit)) if isinstance(part, TextPart) else part
            for part in each.media
        ),
    ]


def _answer(each: CallAnswer) -> PromptLines:
    """Return the answer to a call as quoted text. If the call failed, the first line is not quoted,
    because the program wrote it."""
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
