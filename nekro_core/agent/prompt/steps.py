"""Writes the finished steps of a turn into its prompt: each reply, and the report on it."""

import json
from collections.abc import Sequence
from dataclasses import replace

from nekro_core.agent.prompt.quoting import PromptLines, QuotedText, quote_lines
from nekro_core.agent.prompt.sources import PromptSources, ShownRecord
from nekro_core.agent.prompt.transcript import record_lines, shortened
from nekro_core.agent.prompt.view import CallAnswer, FinishedStep, PromptView
from nekro_core.agent.settings import PromptSettings
from nekro_core.chat import Author, Record
from nekro_core.llm.model import FunctionCall, Part, PromptMessage, TextPart
from nekro_core.llm.tokens import IMAGE_TOKENS, estimate_tokens

_OLD_REPORT = 600
"""Maximum number of characters of an old reply or report that is shortened to save space."""
_ARRIVED = 40
"""Maximum number of records that arrived during a step and are shown with its report."""


def shown_records(
    view: PromptView, records: Sequence[Record], marks: Sequence[int], limit: int
) -> list[ShownRecord]:
    """Write the lines of each record as its mark says. ``marks`` has one mark for each record.
    ``limit`` is the maximum number of characters of one message."""
    own = frozenset(view.own_accounts)
    lines = []
    for record, mark in zip(records, marks, strict=True):
        line = view.written.get(record.seq)
        if line is None or line.mark != mark or line.limit != limit:
            text = record_lines(record, view.zone, limit, mark, own)
            line = ShownRecord(
                seq=record.seq, line=text, limit=limit, mark=mark, tokens=estimate_tokens(text)
            )
        lines.append(line)
    return lines


def newest_seq(records: Sequence[Record]) -> int:
    """Return the number of the newest record; 0 if there is none."""
    return records[-1].seq if records else 0


def step_messages(
    view: PromptView, settings: PromptSettings, room: int, sources: PromptSources
) -> list[PromptMessage]:
    """Return the messages of each step: its reply, and its report with the records that arrived
    during the step. Old steps are shortened if the space does not suffice."""
    messages: list[PromptMessage] = []
    ends = [step.through_seq for step in view.steps[1:]] + [newest_seq(view.records)]
    for position in range(len(view.steps) - 1, -1, -1):
        step = view.steps[position]
        before = [r for r in view.shown if r.seq <= step.through_seq]
        arrived = [r for r in view.shown if step.through_seq < r.seq <= ends[position]]
        # Messages of the bot that belong to no run are left out. Those of an earlier turn stay: in
        # a cluster, such a message can get its final number while this turn runs.
        arrived = [r for r in arrived if r.author is not Author.BOT or r.run_id]
        lines = _arrived(arrived, before, view, settings.message_chars)
        short = False
        shown = _shown_step(step, lines, settings.observation_chars, short=short)
        cost = sum(map(tokens_of, shown))
        if cost > room and position < len(view.steps) - 1:
            short = True
            lines = _arrived(arrived, before, view, _OLD_REPORT)
            shown = _shown_step(step, lines, _OLD_REPORT, short=short)
            cost = sum(map(tokens_of, shown))
        sources.add_records(lines)
        room -= cost
        messages[:0] = shown
    return messages


def _shown_step(
    step: FinishedStep, arrived: Sequence[ShownRecord], limit: int, *, short: bool
) -> list[PromptMessage]:
    report: list[Part] = []
    for part in step.report:
        if isinstance(part, PromptLines):
            report.append(TextPart(part.text(limit)))
        elif not short:
            report.append(part)
    if arrived:
        lines = [each.line for each in arrived]
        report.append(TextPart("\n".join(["", "[chat] arrived meanwhile:", *lines])))
    if step.calls:
        return _called(step, report, limit=limit, short=short)
    reply = shortened(step.reply, limit) if step.reply.strip() else "(empty)"
    return [PromptMessage.of("assistant", reply), PromptMessage("user", tuple(report))]


def _arrived(
    arrived: Sequence[Record], before: Sequence[Record], view: PromptView, limit: int
) -> list[ShownRecord]:
    """Return the lines of the newest records that arrived during a step. ``before`` were shown
    earlier."""
    records = arrived[-_ARRIVED:]
    return shown_records(view, records, view.marks_of(records, before), limit)


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
    because the bot itself wrote it, and not the tool."""
    if not each.failed:
        return PromptLines((QuotedText(each.text),))
    head, _, rest = each.text.partition("\n")
    return PromptLines((head, QuotedText(rest)) if rest else (head,))


def _without_bulk(call: FunctionCall, limit: int) -> FunctionCall:
    if len(call.written) <= limit:
        return call
    return replace(call, written=json.dumps({"left_out": f"{len(call.written)} characters"}))


def tokens_of(message: PromptMessage) -> int:
    """Estimate the tokens of a message."""
    total = 4 + sum(estimate_tokens(f"{call.name}{call.written}") for call in message.calls)
    for part in message.parts:
        total += estimate_tokens(part.text) if isinstance(part, TextPart) else IMAGE_TOKENS
    return total
