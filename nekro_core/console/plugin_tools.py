"""Draws the tools of a plugin as the model sees them, with a form to try each."""

import binascii
from base64 import b64decode
from collections.abc import Callable
from typing import Any

from nicegui import ui
from nicegui.element import Element

from nekro_core.agent.turn.tool_trials import ShownTool
from nekro_core.console.chat_chooser import choose_chat
from nekro_core.console.form_view import FormView
from nekro_core.console.view import View
from nekro_core.console.widgets import badge, empty, start_job
from nekro_core.operator.plugin_views import TrialView
from nekro_core.operator.roles import AccessRole


async def draw_tools(view: View, plugin: Callable[[], str]) -> Any:
    """Draw the tools.

    Args:
        view: The opened page.
        plugin: Returns the plugin's key; empty if it is not known.

    Returns:
        The refreshable that draws the tools. Its method ``refresh`` draws them again.
    """
    may = view.may(AccessRole.OPERATOR)
    chat = await choose_chat(view, view.say("plugins.chat")) if may else None

    @ui.refreshable
    async def show() -> None:
        key = plugin()
        tools = await view.operator.plugins.tools(view.actor, plugin=key) if key else ()
        if not tools:
            empty(view, "plugins.no_tools")
        with ui.element("div").classes("nc-list"):
            for each in tools:
                _draw_tool(view, each, chat)

    await show()
    return show


def _draw_tool(view: View, tool: ShownTool, chat: ui.select | None) -> None:
    with ui.element("article").classes("nc-card nc-plugin-tool"):
        with ui.element("div").classes("nc-row"):
            ui.label(tool.name).classes("nc-grow nc-plugin-name")
            badge(view.say(f"plugins.kind_{tool.kind.value}"))
            badge(view.say(f"plugins.seen_{tool.visibility.value}"))
        ui.label(tool.stub).classes("nc-code nc-wide").props("tabindex=0")
        if tool.where:
            ui.label(tool.where).classes("nc-soft nc-small nc-plugin-where")
        if chat is None or not view.may(AccessRole.OPERATOR):
            return
        trial = ui.expansion(view.say("plugins.try"), icon="play_arrow").classes("nc-wide")
        trial.props["header-aria-label"] = view.say("plugins.try_tool", name=tool.name)

        def open_it() -> None:
            # A plugin may have hundreds of tools, so a form is drawn only when the person opens it.
            if trial.value and not trial.default_slot.children:
                with trial:
                    _draw_trial(view, tool, chat)

        trial.on_value_change(open_it)


def _draw_trial(view: View, tool: ShownTool, chat: ui.select) -> None:
    ui.label(view.say("plugins.try_lead")).classes("nc-soft nc-small")
    form = FormView(view, tool.fields, {}, prefix="arguments")
    if not tool.fields:
        ui.label(view.say("plugins.no_arguments")).classes("nc-soft")
    area = view.operator.plugins

    def call() -> None:
        arguments = form.values()
        if arguments is None:
            return
        if tool.needs_chat and not chat.value:
            form.tell(view.say("plugins.choose_chat"))
            return
        outcome.clear()
        given = {"name": tool.name, "arguments": arguments, "chat_key": chat.value or None}

        def ended() -> None:
            if job is not None and job.outcome is not None:
                with outcome:
                    _draw_outcome(view, job.outcome.result)

        with outcome:
            job = start_job(view, area.try_tool, given, done="", on_end=ended)

    ui.button(view.say("plugins.call"), on_click=call).props("unelevated no-caps")
    outcome = ui.element("div").classes("nc-list nc-plugin-outcome").props('aria-live="polite"')


def _draw_outcome(view: View, trial: TrialView) -> None:
    with ui.element("div").classes("nc-row"):
        failed = trial.failed
        badge(
            view.say("plugins.failed" if failed else "plugins.answered"),
            "bad" if failed else "good",
        )
        ui.label(view.say("plugins.took", seconds=f"{trial.seconds:.2f}")).classes("nc-soft")
    if trial.text:
        ui.label(trial.text).classes("nc-code nc-wide").props("tabindex=0")
    fault = trial.fault
    if fault is not None:
        ui.label(fault.text).classes("nc-bad nc-text")
        ui.label(fault.where).classes("nc-soft nc-small nc-plugin-where")
    for number, each in enumerate(trial.media, 1):
        _draw_medium(view, number, each)


def _draw_medium(view: View, number: int, address: str) -> None:
    head, _, body = address.partition(",")
    if not address.startswith("data:"):
        # Show only the address: the browser must not fetch pictures from other hosts.
        ui.label(address).classes("nc-text")
    elif address.startswith("data:image/") and not address.startswith("data:image/svg"):
        picture: Element = ui.element("img").classes("nc-plugin-picture")
        picture.props["src"] = address
        picture.props["alt"] = view.say("plugins.medium", number=number)
    else:
        kind = head.removeprefix("data:").partition(";")[0].rpartition("/")[2]

        def download() -> None:
            try:
                ui.download.content(b64decode(body), f"{number}.{kind}")
            except binascii.Error as error:
                view.tell(str(error), bad=True)

        ui.button(view.say("plugins.download", number=number), on_click=download).props(
            "flat dense no-caps"
        )
