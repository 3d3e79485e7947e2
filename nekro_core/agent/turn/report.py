"""Writes the report on a step. The model reads it before the next step.

Output, tracebacks and results may contain text of people in the chat or on the internet. So each is
a `QuotedText`; its lines get the mark ``>`` when they are shown, like the lines of the history.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nekro_core.agent.prompt.quoting import PromptContent, PromptLines, QuotedText
from nekro_core.agent.prompt.transcript import json_quoted, shortened
from nekro_core.agent.turn.call_results import has_sent
from nekro_core.agent.turn.long_texts import BoundedText
from nekro_core.agent.turn.native_reply import NativeReply, calls_text
from nekro_core.agent.turn.recorder import CUT_OFF, WORDS
from nekro_core.agent.turn.reply import End, ModelReply
from nekro_core.agent.turn.run_calls import RunCalls
from nekro_core.chat import DeliveryState, RunRecord, plain_text
from nekro_core.llm.model import FunctionCall, TextPart
from nekro_core.sandbox.box import StopReason
from nekro_core.store import DeliveryRow, ToolCall
from nekro_core.tools.discovery import SEARCH

DO_NOT_RESEND = frozenset(state for state in DeliveryState if state.left)
"""States of deliveries that must not be sent again."""

_STATES = {
    DeliveryState.PENDING: "not sent yet, will be",
    DeliveryState.SENDING: "unknown whether it arrived",
    DeliveryState.SENT: "sent",
    DeliveryState.REJECTED: "refused by the platform",
    DeliveryState.UNKNOWN: "unknown whether it arrived",
    DeliveryState.DROPPED: "never sent",
}
_STOPS = {
    StopReason.ERROR: "Your code raised an error:",
    StopReason.TIMEOUT: "Your code ran too long and was stopped.",
    StopReason.OUT_OF_MEMORY: "Your code needed too much memory and was stopped.",
    StopReason.TOO_MANY_CALLS: "Your code made too many calls and was stopped.",
    StopReason.PROTOCOL_ERROR: "Your code broke its connection to the functions.",
    StopReason.DIED: "The process of your code ended.",
    StopReason.CANCELLED: "Your code was stopped.",
}
_VARIABLES_GONE = "[note] Your variables and imports are gone with it; files are kept."
_CODE = 2000
"""Maximum number of characters that the model is shown of a run's code, output and error after a
restart."""
_ARGUMENTS = 300
_CALLS, _SHORT = 12, 120
"""Maximum number of calls that a report lists, and of characters of each call's arguments."""
NOBODY_HAS_SEEN = "[note] Nobody has seen anything from you yet."
WORDS_UNSENT = "[note] Your words were not sent: a call beside them failed."
_ENDS = {
    "length": (
        "[error] Your reply was too long and was cut off here.",
        "[note] Go on from there, and write less in one reply: make long files and texts in parts.",
    ),
    "broken": ("[error] Your reply broke off in the middle.",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """The effects of a step.

    ``output`` is the text that the step's code printed, shortened. ``sent`` are the messages that
    the step sent. ``said`` says that the first of these messages are words that were sent while the
    model wrote them. ``seen`` says whether the turn has sent anything to people. ``again`` says
    that the output is the same as in the previous step. ``nothing`` says that the step sent no
    message and printed no text. ``more`` are further lines for the model.
    """

    output: BoundedText
    sent: Sequence[DeliveryRow]
    seen: bool
    said: bool = False
    again: bool = False
    nothing: bool = False
    more: Sequence[str] = ()


def step_report(
    reply: ModelReply, calls: RunCalls, outcome: StepOutcome
) -> tuple[PromptContent, ...]:
    """Return the report on a step with code."""
    lines: list[str | QuotedText] = []
    if reply.result is not None:
        if reply.result.stop in _STOPS:
            lines.append(f"[error] {_STOPS[reply.result.stop]}")
            lines.append(QuotedText(reply.result.error))
            lines += done_calls(calls.finished)
        if reply.result.stop in _STOPS and not reply.result.globals_kept:
            lines.append(_VARIABLES_GONE)
        if outcome.output.text.strip():
            lines += [_output_line(reply, outcome.output), QuotedText(outcome.output.text)]
    if outcome.again:
        lines.append("[note] That is what you were shown before. Once more, and your turn ends.")
    lines += _words_note(reply, outcome)
    if reply.box_error is not None:
        lines.append("[error] The box was lost. You have a fresh one with the files saved last.")
        lines.append("[note] Your variables and imports are gone with it.")
    lines += _ended(reply)
    lines += sent_lines(outcome.sent)
    if outcome.nothing:
        lines.append("[note] Nothing was sent and nothing printed: nobody has got an answer.")
    elif not outcome.seen and not outcome.sent:
        lines.append(NOBODY_HAS_SEEN)
    if calls.unread and not _printed(reply):
        lines += [f"[result] of {SEARCH}:", QuotedText(calls.unread)]
    parts: list[PromptContent] = []
    for name, observed in calls.observed:
        lines.append(f"[result] of {name}:")
        for part in observed:
            if isinstance(part, TextPart):
                lines.append(QuotedText(part.text))
            else:
                parts += [PromptLines(tuple(lines)), part]
                lines = []
    lines += outcome.more
    lines.append("[task] Go on, if there is more to do; else reply with the code `pass`.")
    return (*parts, PromptLines(tuple(lines)))


def native_step_report(
    reply: NativeReply, sent: Sequence[DeliveryRow], more: Sequence[str] = ()
) -> tuple[PromptContent, ...]:
    """Return the report on a step with native calls. It says what the answers to the calls do not
    say: whether the reply was cut off, and whether its text was sent. ``more`` are further lines.
    May be empty."""
    lines = list(_ENDS.get(reply.end, ()))
    lines += sent_lines(sent)
    lines += more
    return (PromptLines(tuple(lines)),) if lines else ()


_NOTHING: dict[End, str] = {
    "length": "[error] Your reply reached its limit of length before anything of it could be used, "
    "perhaps while you were thinking: think less, and write less at a time.",
    "broken": "[error] Your reply broke off before anything of it could be used.",
}


def empty_report(end: End, more: Sequence[str] = ()) -> tuple[PromptContent, ...]:
    """Return the report on a reply without text and code. It depends on how the reply ended.
    ``more`` are further lines."""
    empty = "[error] Your reply was empty. Reply with a block fenced as ```python; to stay silent, "
    empty += "with `pass` in it."
    return (PromptLines((_NOTHING.get(end, empty), NOBODY_HAS_SEEN, *more)),)


def native_empty_report(end: End, more: Sequence[str] = ()) -> tuple[PromptContent, ...]:
    """Return the report on an empty reply of a model that calls functions natively."""
    empty = "[error] Your reply was empty."
    return (PromptLines((_NOTHING.get(end, empty), NOBODY_HAS_SEEN, *more)),)


def json_call_report(
    calls: Sequence[FunctionCall], more: Sequence[str], *, natively: bool
) -> tuple[PromptContent, ...]:
    """Return the report on a reply that is only calls written as JSON. It shows the calls as they
    should have been written. ``more`` are further lines."""
    lines: list[str | QuotedText] = ["[error] Your reply was a call written as JSON text."]
    lines.append("[note] Nothing of it was carried out, and nobody has seen it.")
    if natively:
        lines.append("[task] Call the function itself.")
    else:
        lines.append("[task] Write the call as Python, in a block fenced as ```python:")
        lines.append(QuotedText(shortened(calls_text(calls), _CODE)))
    return (PromptLines((*lines[:2], *more, *lines[2:])),)


def done_calls(calls: Sequence[ToolCall]) -> list[str]:
    """Return lines about the calls that were carried out before an error. Calls that sent messages
    are left out, because `sent_lines` lists their messages."""
    done = [call for call in calls if call.outcome == "ok" and not has_sent(call.result)]
    if not done:
        return []
    lines = ["[note] Before that, these calls were carried out, and what they did stays:"]
    if len(done) > _CALLS:
        lines.append(f"+ {len(done) - _CALLS} earlier calls")
    return lines + [
        f"+ {json_quoted(call.name, 80)} with {json_quoted(call.arguments, _SHORT)}"
        for call in done[-_CALLS:]
    ]


def sent_lines(rows: Sequence[DeliveryRow]) -> list[str]:
    """Return a line for each message of the deliveries, with its state."""
    if not rows:
        return []
    lines = ["[sent] People got this from you already; do not send it again:"]
    if not any(row.state in DO_NOT_RESEND for row in rows):
        lines = ["[sent] Nothing reached the people:"]
    for row in rows:
        why = (
            f" ({json_quoted(row.reason)})" if row.reason and row.state not in DO_NOT_RESEND else ""
        )
        lines.append(f"+ {_STATES[row.state]}{why}: {json_quoted(plain_text(row.segments), 600)}")
    return lines


def done_lines(runs: Sequence[tuple[RunRecord, Sequence[ToolCall]]]) -> list[str | QuotedText]:
    """Return lines about a turn's runs before a restart: the code of each run, if known, its calls,
    its output and its error."""
    lines: list[str | QuotedText] = []
    for run, calls in runs:
        if run.stop in WORDS:
            continue  # Such a run sent only text, which `sent_lines` lists.
        lines.append("[before] Before the restart you ran this:")
        code = run.code.strip() or "(the code is not known any more)"
        lines.append(QuotedText(shortened(code, _CODE)))
        for call in calls:
            became = json_quoted(call.outcome) if call.outcome else "unknown whether it was done"
            arguments = json_quoted(call.arguments, _ARGUMENTS)
            lines.append(f"+ it called {json_quoted(call.name, 80)} with {arguments}: {became}")
        if run.output.strip():
            lines += ["[output] printed by it:", QuotedText(shortened(run.output, _CODE))]
        if run.error.strip():
            lines += ["[error] It raised:", QuotedText(shortened(run.error, _CODE))]
        if run.stop in ("", CUT_OFF):
            lines.append("[note] The restart cut it off.")
    return lines


def _words_note(reply: ModelReply, outcome: StepOutcome) -> list[str]:
    """Return lines about the words outside of the code; nothing if there is nothing to say about
    them."""
    if outcome.said:
        return [
            "[note] Words before your block were sent while you wrote them, and are listed below.",
            "[note] Your other words outside the block were not sent.",
        ]
    if reply.statements and reply.prose:
        return ["[note] Your words outside the block were not sent."]
    return []


def _output_line(reply: ModelReply, output: BoundedText) -> str:
    """Return the line of the program above the output of code."""
    about = ""
    if output.left_out:
        about = f", {len(reply.result.output) if reply.result else 0} characters"
        about += f"; all of it is in {output.path}" if output.path else ""
    if reply.result is not None and reply.result.output_truncated:
        about += " (its end is missing: too much)"
    return f"[output] printed by your code{about}:"


def _printed(reply: ModelReply) -> bool:
    return reply.result is not None and bool(reply.result.output.strip())


def _ended(reply: ModelReply) -> list[str]:
    number = reply.kept.count("\n") + 1
    if reply.end in _ENDS:
        return list(_ENDS[reply.end])
    if reply.tail.strip():
        return [f"[note] What you wrote from line {number} on did not run."]
    return []
