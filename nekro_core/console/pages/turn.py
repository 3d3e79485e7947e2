"""Draws the page of one turn."""

from urllib.parse import urlencode

from nicegui import ui

from nekro_core.console.chat_messages import reason_text
from nekro_core.console.turn_parts import amount, draw_steps, ending
from nekro_core.console.turn_prompt import draw_prompts
from nekro_core.console.turn_replay import draw_replay
from nekro_core.console.turn_waterfall import draw_waterfall
from nekro_core.console.view import ROOT, View, link_to
from nekro_core.console.widgets import heading, local_time
from nekro_core.operator.turns import TurnDetails
from nekro_core.system.errors import NekroError

_LOOK_S = 2.0
"""Seconds between two reads of a turn that runs."""


async def turn_page(view: View) -> None:
    """Draw the page. While the turn runs, the page changes with it."""
    area, actor = view.operator.turns, view.actor
    turn_id = int(view.place["turn_id"])
    ui.link(view.say("turns.back"), link_to(f"{ROOT}/turns")).classes("nc-small")
    shown = [await area.one(actor, turn_id=turn_id)]

    @ui.refreshable
    async def trace() -> None:
        details = shown[0]
        _draw_head(view, details)
        heading(view.say("turns.waterfall"))
        draw_waterfall(view, details.spans)
        draw_steps(view, details)
        heading(view.say("turns.shown"))
        await draw_prompts(view, details)

    async def look() -> None:
        try:
            details = await area.one(actor, turn_id=turn_id)
        except NekroError as error:  # The turn was erased meanwhile.
            timer.deactivate()
            view.show_error(error)
            return
        if details != shown[0]:
            shown[0] = details
            await trace.refresh()
        if not details.turn.running:
            timer.deactivate()
            await again()

    async def again() -> None:
        with replay:
            heading(view.say("turns.replay_title"))
            await draw_replay(view, turn_id)

    await trace()
    replay = ui.element("div")
    if shown[0].turn.running:
        timer = ui.timer(_LOOK_S, look, immediate=False)
    else:
        await again()


def _draw_head(view: View, details: TurnDetails) -> None:
    turn = details.turn
    with ui.element("div").classes("nc-card"):
        with ui.element("div").classes("nc-row"):
            ending(view, turn)
            ui.label(turn.asked or view.say("turns.forgotten")).classes("nc-grow nc-text")
        with ui.element("div").classes("nc-row nc-small"):
            of_chat = f"{ROOT}/turns?{urlencode({'chat': str(turn.chat_key)})}"
            ui.link(str(turn.chat_key), link_to(of_chat))
            about = [turn.user_id, turn.model, *amount(view, turn), local_time(turn.started)]
            if details.why:
                about.append(reason_text(view, details.why, details.why_detail))
            ui.label(" · ".join(each for each in about if each)).classes("nc-soft nc-grow")
