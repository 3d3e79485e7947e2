"""Draws the repetition of a turn: a form, the progress, and the result beside the original."""

from collections.abc import Sequence
from typing import Any

from nicegui import ui

from nekro_core.console.turn_parts import code_block, draw_run, duration, ending, readable
from nekro_core.console.turn_prompt import draw_prompt
from nekro_core.console.view import View
from nekro_core.console.widgets import badge, heading, show_job, start_job
from nekro_core.operator.jobs import JobState, RunningJob
from nekro_core.operator.roles import AccessRole
from nekro_core.operator.turns import TurnDetails, TurnReplayView

_ANSWERED = {"recorded": "good", "shown": "good", "searched": "good", "not_replayed": "warn"}


async def draw_replay(view: View, turn_id: int) -> None:
    """Draw the form, and the last result if it is still known."""
    ui.label(view.say("turns.replay_lead")).classes("nc-lead")

    @ui.refreshable
    def show(found: TurnReplayView | None) -> None:
        if found is not None:
            _draw_result(view, found)

    if view.may(AccessRole.OPERATOR):
        await _draw_form(view, turn_id, show.refresh)
    else:
        ui.label(view.say("turns.replay_role")).classes("nc-soft")
    show(await _last(view, turn_id))


async def _last(view: View, turn_id: int) -> TurnReplayView | None:
    """Return the newest result of a repetition of this turn that is still in the list of jobs."""
    for job in await view.operator.jobs.newest(view.actor):
        found = job.result
        if (
            job.state is JobState.DONE
            and isinstance(found, TurnReplayView)
            and found.original.turn.turn_id == turn_id
        ):
            return found
    return None


async def _draw_form(view: View, turn_id: int, done: Any) -> None:
    as_now = view.say("turns.as_now")
    groups = [each.group for each in await view.operator.models.all(view.actor)]
    library = {each.name: each.text for each in await view.operator.personas.all(view.actor)}
    with ui.element("div").classes("nc-filters nc-turn-form"):
        model = ui.select(
            {"": as_now} | {each: each for each in groups}, value="", label=view.say("turns.model")
        ).props("outlined dense")
        mode = ui.select(
            {
                "": as_now,
                "code": view.say("turns.mode_code"),
                "tools": view.say("turns.mode_tools"),
            },
            value="",
            label=view.say("turns.mode"),
        ).props("outlined dense")
        known = ui.select(
            {"": as_now} | {each: each for each in library} | {"*": view.say("turns.own_persona")},
            value="",
            label=view.say("turns.persona"),
        ).props("outlined dense")
        begin = ui.button(view.say("turns.replay"), icon="replay").props("unelevated no-caps")
    persona = ui.textarea(view.say("turns.persona_text")).props("outlined dense autogrow")
    persona.classes("nc-wide")
    persona.set_visibility(False)

    def chosen() -> None:
        if known.value in library:
            persona.value = library[known.value]
        persona.set_visibility(bool(known.value))

    known.on_value_change(chosen)
    progress = ui.element("div").classes("nc-list")
    action = view.operator.turns.replay

    def ended(job: RunningJob) -> None:
        begin.enable()
        if job.outcome is not None:
            done(job.outcome.result)

    running = view.operator.jobs.running(action.full_name, turn_id=turn_id)
    if running is not None:
        # A repetition of this turn is running: it was started before the page was loaded again, or
        # by somebody else.
        begin.disable()
        with progress:
            show_job(view, running, done=view.say("turns.replayed"), on_end=lambda: ended(running))

    def start() -> None:
        given = {
            "turn_id": turn_id,
            "model": model.value or "",
            "persona": persona.value or "" if known.value else None,
            "mode": mode.value or None,
        }

        def end() -> None:
            if job is not None:
                ended(job)

        with progress:
            job = start_job(
                view,
                action,
                given,
                done=view.say("turns.replayed"),
                on_end=end,
            )
        if job is not None:
            begin.disable()

    begin.on_click(start)


def _draw_result(view: View, found: TurnReplayView) -> None:
    for note in found.notes:
        ui.label(note).classes("nc-soft nc-small")
    with ui.element("div").classes("nc-turn-two"):
        _draw_side(view, found.original, view.say("turns.original"), _sent(found.original))
        _draw_side(
            view,
            found.replayed,
            view.say("turns.repeated", model=found.model, mode=found.mode),
            found.sends,
        )
    heading(view.say("turns.replayed_calls"))
    if not found.calls:
        ui.label(view.say("turns.no_calls")).classes("nc-soft")
    with ui.element("div").classes("nc-list"):
        for call in found.calls:
            with ui.element("div").classes("nc-card"):
                with ui.element("div").classes("nc-row"):
                    ui.label(call.name).classes("nc-grow nc-turn-name")
                    badge(view.say(f"turns.call_{call.answered}"), _ANSWERED[call.answered])
                code_block(readable(call.arguments))
    for prompt in found.prompts:
        title = view.say("turns.replay_prompt", number=prompt.position + 1)
        with ui.expansion(title, icon="visibility").classes("nc-card"):
            draw_prompt(view, prompt, replayed=True)


def _sent(details: TurnDetails) -> list[str]:
    return [send.text for run in details.runs for send in run.sends]


def _draw_side(view: View, details: TurnDetails, title: str, sends: Sequence[str]) -> None:
    turn = details.turn
    with ui.element("section").classes("nc-card").props(f'aria-label="{_plain(title)}"'):
        with ui.element("div").classes("nc-row"):
            ui.label(title).classes("nc-grow nc-turn-name")
            ending(view, turn)
        rows = (
            ("model", turn.model),
            ("column_steps", str(turn.steps)),
            ("column_in", f"{turn.prompt_tokens:,}"),
            ("column_out", f"{turn.completion_tokens:,}"),
            ("column_cost", f"{turn.cost:.4g}"),
            ("column_first", _first(details)),
            ("column_length", duration(turn.ended - turn.started)),
        )
        with ui.element("dl").classes("nc-turn-facts"):
            for key, value in rows:
                with ui.element("dt"):
                    ui.label(view.say(f"turns.{key}"))
                with ui.element("dd"):
                    ui.label(value)
        ui.label(view.say("turns.sent")).classes("nc-soft nc-small")
        if not sends:
            ui.label(view.say("turns.no_sends")).classes("nc-soft")
        for text in sends:
            ui.label(text).classes("nc-text nc-turn-said")
        for step in details.steps:
            number = step.position + 1
            if step.step is not None:
                with ui.expansion(view.say("turns.reply_of", number=number)):
                    code_block(step.step.reply)
            if step.error:
                ui.label(step.error).classes("nc-bad nc-lines nc-small")
        for run in details.runs:
            with ui.expansion(view.say("turns.run_of", number=run.step + 1)):
                draw_run(view, run)


def _plain(text: str) -> str:
    """Return a text that can be put between quotes in the properties of an element."""
    return "".join(each for each in text if each.isalnum() or each in " .,:-_")


def _first(details: TurnDetails) -> str:
    for step in details.steps:
        if step.first_token is not None:
            return duration(step.first_token - step.began)
    return "–"
