"""Draws what the model was shown in the steps of a turn, by section."""

from nicegui import ui

from nekro_core.agent.shown.viewer import ShownSection
from nekro_core.console.turn_parts import code_block
from nekro_core.console.view import ROOT, View, link_to
from nekro_core.console.widgets import badge
from nekro_core.operator.turns import ShownPromptView, TurnDetails
from nekro_core.system.errors import NekroError


async def draw_prompts(view: View, details: TurnDetails) -> None:
    """Draw a choice of the step, and the prompt of the chosen step."""
    positions = [each.position for each in details.steps if each.has_prompt]
    if not positions:
        ui.label(view.say("turns.no_prompt")).classes("nc-soft")
        return
    if len(positions) > 1:
        choice = ui.select(
            {each: view.say("turns.step", number=each + 1) for each in positions},
            value=positions[0],
            label=view.say("turns.which_step"),
        )
        choice.props("outlined dense").on_value_change(lambda: show.refresh(choice.value))

    @ui.refreshable
    async def show(position: int) -> None:
        try:
            prompt = await view.operator.turns.shown(
                view.actor, turn_id=details.turn.turn_id, step=position
            )
        except NekroError as error:
            ui.label(str(error)).classes("nc-soft")
            return
        draw_prompt(view, prompt)

    await show(positions[0])


def draw_prompt(view: View, prompt: ShownPromptView, *, replayed: bool = False) -> None:
    """Draw a prompt. If it is the prompt of a repeated turn (``replayed``), the link to the
    previous prompt is left out, because the prompts of repeated turns are not stored."""
    with ui.element("div").classes("nc-row"):
        ui.label(view.say("turns.prompt_tokens", count=f"{prompt.tokens:,}"))
        ui.label(view.say("turns.unchanged", count=f"{prompt.unchanged_tokens:,}")).classes(
            "nc-soft"
        )
        if prompt.previous is not None and not replayed:
            turn_id, step = prompt.previous
            ui.link(
                view.say("turns.previous", turn=turn_id, step=step + 1),
                link_to(f"{ROOT}/turns/{turn_id}"),
            ).classes("nc-small")
        ui.space()
        badge(
            view.say("turns.exact" if prompt.exact else "turns.has_gaps"),
            "good" if prompt.exact else "warn",
        )
        end = "" if prompt.exact else "-with-gaps"
        name = f"turn-{prompt.turn_id}-step-{prompt.position + 1}{end}.json"
        ui.button(
            view.say("turns.download"),
            icon="download",
            on_click=lambda: ui.download.content(prompt.json, name, "application/json"),
        ).props("flat dense no-caps")
    if prompt.error:
        ui.label(prompt.error).classes("nc-bad nc-lines")
    _draw_shares(view, prompt)
    with ui.element("div").classes("nc-list nc-turn-sections"):
        ended = not prompt.unchanged_tokens
        for section in prompt.sections:
            if not ended and not section.unchanged:
                ended = True
                ui.label(view.say("turns.prefix_ends")).classes("nc-turn-prefix nc-small")
            _draw_section(view, section)


def _draw_shares(view: View, prompt: ShownPromptView) -> None:
    with ui.element("div").classes("nc-turn-shares").props('aria-hidden="true"'):
        for section in prompt.sections:
            share = ui.element("div").style(f"flex: {max(section.tokens, 1)} 1 0")
            share.classes("nc-turn-share" + (" nc-turn-share-same" if section.unchanged else ""))
            if section.gap:
                share.classes("nc-turn-share-gap")
            tokens = view.say("turns.tokens", count=f"{section.tokens:,}")
            share.tooltip(f"{_name(view, section)} · {tokens}")


def _draw_section(view: View, section: ShownSection) -> None:
    tokens = view.say("turns.tokens", count=f"{section.tokens:,}")
    caption = f"{section.role} · {tokens}"
    if section.seqs:
        caption += " · " + view.say("turns.records", count=len(section.seqs))
    if section.unchanged:
        caption += " · " + view.say("turns.same")
    if section.gap:
        caption += " · " + view.say("turns.gap", why=section.gap)
    part = ui.expansion(_name(view, section), caption=caption, value=bool(section.gap))
    part.classes("nc-card nc-turn-section" + (" nc-turn-gap" if section.gap else ""))

    def fill() -> None:
        # A prompt can have hundreds of thousands of characters, so a section is sent to the browser
        # only when the person opens it.
        if part.value and not part.default_slot.children:
            with part:
                code_block(section.text)

    part.on_value_change(fill)
    fill()


def _name(view: View, section: ShownSection) -> str:
    plugin = section.kind.removeprefix("plugin ")
    if plugin != section.kind:
        return view.say("turns.kind_plugin", name=plugin)
    return view.say(f"turns.kind_{section.kind}")
