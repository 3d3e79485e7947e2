"""Draws the parts of a turn that several pages use: its end, its use, its code and its calls."""

import json

from nicegui import ui

from nekro_core.chat import DeliveryState
from nekro_core.console.view import ROOT, View, link_to
from nekro_core.console.widgets import badge, heading
from nekro_core.operator.turns import TurnDetails, TurnRunView, TurnSendView, TurnView
from nekro_core.store.turn_trace import StepTrace

_NORMAL = frozenset({"finished", "stopped"})
_LINE = 100
"""Maximum number of characters of JSON that is shown on one line."""
_STATES = {
    DeliveryState.SENT: "good",
    DeliveryState.REJECTED: "bad",
    DeliveryState.DROPPED: "bad",
}


def ending(view: View, turn: TurnView) -> None:
    """Draw how a turn ended."""
    stop = "running" if turn.running else turn.stop
    text = stop_text(view, stop)
    kind = "warn" if turn.running else "good" if stop in _NORMAL else "bad"
    badge(text, kind)
    if turn.failed and stop in _NORMAL:
        badge(view.say("turns.with_errors"), "bad")


def stop_text(view: View, stop: str) -> str:
    """Return a sentence for the reason why a turn ended. If several reasons have the same sentence,
    the code of the reason is added."""
    known = {*_NORMAL, "running", "model", "limit"}
    family = stop if stop in known else stop.partition("_")[0]
    text = view.say(f"turns.stop_{family}") if family in known else stop
    return text if stop in (text, family) else f"{text} ({stop})"


def amount(view: View, turn: TurnView) -> list[str]:
    """Return what a turn used: steps, tokens and cost."""
    tokens = turn.prompt_tokens + turn.completion_tokens
    found = [
        view.say("turns.steps", count=turn.steps),
        view.say("turns.tokens", count=f"{tokens:,}"),
    ]
    if turn.published_cost:
        found.append(view.say("turns.cost_published", cost=f"{turn.cost:.4g}"))
    elif turn.cost:
        found.append(view.say("turns.cost", cost=f"{turn.cost:.4g}"))
    if turn.unpriced:
        found.append(view.say("turns.cost_unknown"))
    return found


def duration(seconds: float) -> str:
    """Return a length of time for people."""
    return f"{seconds * 1000:.0f} ms" if abs(seconds) < 1 else f"{seconds:.2f} s"


def code_block(text: str, *, bad: bool = False) -> None:
    """Draw a text without changes, in a fixed-width font."""
    shown = ui.label(text.strip("\n")).classes("nc-code" + (" nc-bad" if bad else ""))
    shown.props('tabindex="0"')


def readable(value: str) -> str:
    """Return JSON for people: if it is long, it is broken into lines. A text that is not JSON, for
    example because it was cut off, stays as it is."""
    try:
        found = json.loads(value)
    except ValueError:
        return value
    return json.dumps(found, ensure_ascii=False, indent=2 if len(value) > _LINE else None)


def draw_steps(view: View, details: TurnDetails) -> None:
    """Draw all steps in order: the reply, and then the code with its output, calls and messages."""
    runs: dict[int, list[TurnRunView]] = {}
    for run in details.runs:
        runs.setdefault(run.step, []).append(run)
    for step in details.steps:
        title = view.say("turns.step", number=step.position + 1)
        heading(title)
        with ui.element("div").classes("nc-list"):
            _draw_models(view, step)
            if step.step is not None:
                with ui.expansion(view.say("turns.reply"), icon="chat").classes("nc-card"):
                    code_block(step.step.reply)
            if step.error:
                ui.label(step.error).classes("nc-bad nc-lines")
            for run in runs.pop(step.position, ()):
                draw_run(view, run)
    for left in runs.values():
        for run in left:
            draw_run(view, run)


def _draw_models(view: View, step: StepTrace) -> None:
    """Draw how many tokens of the prompt came from the provider's cache. If models of the chain
    were passed over, also draw why, and which model answered."""
    if step.passed:
        key = "turns.model_answered" if step.answered else "turns.no_model_answered"
        ui.label(view.say(key, name=step.answered)).classes("nc-soft nc-small")
        with ui.element("ul").classes("nc-small"):
            for each in step.passed:
                reason = view.say(f"turns.passed_{each.reason}")
                line = view.say("turns.passed", name=each.name, reason=reason)
                if each.seconds:
                    line = f"{line} ({duration(each.seconds)})"
                with ui.element("li"):
                    ui.label(line)
                    if each.error:
                        ui.label(each.error).classes("nc-soft nc-lines")
    if step.step is not None and step.step.cached_tokens:
        told = view.say(
            "turns.cached",
            cached=f"{step.step.cached_tokens:,}",
            prompt=f"{step.step.prompt_tokens:,}",
        )
        ui.label(told).classes("nc-soft nc-small")


def draw_run(view: View, run: TurnRunView) -> None:
    """Draw one run."""
    with ui.element("article").classes("nc-card nc-turn-run"):
        for key, text in (("code", run.code), ("output", run.output), ("error", run.error)):
            if text.strip():
                ui.label(view.say(f"turns.{key}")).classes("nc-soft nc-small")
                code_block(text, bad=key == "error")
        for call in run.calls:
            _draw_call(view, call.name, call.arguments, call.outcome, call.result, call.seconds)
        for send in run.sends:
            _draw_send(view, send)


def _draw_call(
    view: View, name: str, arguments: str, outcome: str, result: str, seconds: float
) -> None:
    with ui.element("div").classes("nc-turn-call"):
        with ui.element("div").classes("nc-row"):
            ui.icon("build").classes("nc-soft")
            ui.label(name).classes("nc-grow nc-turn-name")
            if outcome == "ok":
                badge(view.say("turns.call_ok"), "good")
            else:
                badge(view.say("turns.call_failed" if outcome else "turns.stop_running"), "bad")
            ui.label(duration(seconds)).classes("nc-soft nc-small")
        code_block(readable(arguments))
        if outcome not in ("", "ok"):
            ui.label(outcome).classes("nc-bad nc-lines nc-small")
        if result:
            with ui.expansion(view.say("turns.result_of_call")).classes("nc-small"):
                code_block(readable(result))


def _draw_send(view: View, send: TurnSendView) -> None:
    with ui.element("div").classes("nc-row nc-turn-call"):
        ui.icon("send").classes("nc-soft")
        ui.label(send.text).classes("nc-grow nc-text")
        state = badge(
            view.say(f"undelivered.state_{send.state.value}"), _STATES.get(send.state, "warn")
        )
        state.tooltip(send.reason or send.delivery_id)
        if send.state is not DeliveryState.SENT:
            ui.link(view.say("frame.page_undelivered"), link_to(f"{ROOT}/undelivered")).classes(
                "nc-small"
            )
        if send.reason:
            ui.label(send.reason).classes("nc-bad nc-small nc-lines")
