"""Restarts the bot from a page, and loads the page again when the bot answers again."""

from nicegui import ui

from nekro_core.console.view import ROOT, View
from nekro_core.console.widgets import confirm

_COME_BACK = f"""
(async () => {{
  const began = Date.now();
  let gone = false;
  for (;;) {{
    await new Promise(done => setTimeout(done, 500));
    try {{
      const answer = await fetch("{ROOT}/settings", {{cache: "no-store", redirect: "manual"}});
      if (answer.status < 500 && (gone || Date.now() - began > 15000)) {{
        location.reload();
        return;
      }}
    }} catch (error) {{ gone = true; }}
  }}
}})()
"""
"""A script for the browser. It loads the page again when the bot could not be reached and then
answers again. If the script never notices that the bot cannot be reached, it loads the page after
15 s."""


async def ask_restart(view: View, *, details: str = "") -> None:
    """Ask the person whether to restart the bot, and restart it if they agree.

    Args:
        view: The opened page.
        details: What the restart also does, for example restore a backup.
    """
    if not await confirm(
        view,
        view.say("settings.restart_ask"),
        details=details or view.say("settings.restart_details"),
        button=view.say("settings.restart_now"),
    ):
        return
    begun: list[bool] = []

    async def note() -> None:
        begun.append(True)

    await view.perform(
        view.operator.settings.restart(view.actor), view.say("settings.restarting"), refresh=note
    )
    if begun:
        with (
            ui.dialog(value=True).props("persistent"),
            ui.card().classes("nc-dialog"),
            ui.row().props('role="status"'),
        ):
            ui.spinner(size="22px")
            ui.label(view.say("settings.restarting"))
        ui.run_javascript(_COME_BACK)
