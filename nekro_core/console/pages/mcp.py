"""Draws the page of MCP servers."""

from nicegui import ui

from nekro_core.console.mcp_form import McpForm, draw_tools
from nekro_core.console.view import View
from nekro_core.console.widgets import badge, confirm, empty
from nekro_core.operator.mcp import McpServersView, McpServerView
from nekro_core.operator.roles import AccessRole

_READ_AGAIN_S = 2.0
_PHASES = {"ready": "good", "connecting": "warn", "waiting": "warn", "wrong": "bad"}


async def mcp_page(view: View) -> None:
    """Draw the page."""
    ui.label(view.say("mcp.lead")).classes("nc-lead")
    page = _McpPage(view)
    await page.refresh()
    ui.timer(_READ_AGAIN_S, page.refresh, immediate=False)


class _McpPage:
    """The list of servers, and the form of the opened server."""

    def __init__(self, view: View) -> None:
        self._view, self._area = view, view.operator.mcp
        self._shown: McpServersView | None = None
        self._open: set[str] = set()
        self._editor = ui.element("div").classes("nc-wide nc-mcp-editor")
        self._dialogs = ui.element("div")
        self._list = ui.element("div").classes("nc-list")
        if view.may(AccessRole.OWNER):
            ui.button(view.say("mcp.add"), icon="add", on_click=lambda: self._edit(None)).props(
                "outline no-caps"
            ).classes("nc-more")

    async def refresh(self) -> None:
        """Draw the list anew if it has changed. An open form stays as it is."""
        present = await self._area.all(self._view.actor)
        if present == self._shown:
            return
        self._shown = present
        await self._draw()

    async def _draw(self) -> None:
        view, shown = self._view, self._shown
        if shown is None:
            return
        tools = {name: await self._area.tools(view.actor, server=name) for name in self._open}
        self._list.clear()
        with self._list:
            if shown.problem:
                ui.label(shown.problem).classes("nc-bad nc-lines")
            elif not shown.servers:
                empty(view, "mcp.nothing")
            for each in shown.servers:
                with ui.element("article").classes("nc-card"):
                    self._draw_server(each)
                    if each.name in tools:
                        draw_tools(view, tools[each.name])

    def _draw_server(self, server: McpServerView) -> None:
        view, entry = self._view, server.entry
        with ui.element("div").classes("nc-row"):
            badge(view.say(f"mcp.phase_{server.phase}"), _PHASES.get(server.phase, ""))
            ui.label(server.name).classes("nc-mcp-name nc-grow")
            ui.label(view.say("mcp.tools_count", count=server.tools)).classes("nc-soft nc-small")
        place = entry.url or " ".join((entry.command, *entry.args))
        ui.label(place).classes("nc-soft nc-small nc-lines")
        if server.reason:
            bad = server.phase in ("wrong", "waiting")
            ui.label(server.reason).classes("nc-bad nc-lines" if bad else "nc-soft nc-lines")
        if server.missing:
            names = ", ".join(server.missing)
            ui.label(view.say("mcp.missing", names=names)).classes("nc-bad nc-small")
        with ui.element("div").classes("nc-row"):
            if server.tools:
                key = "mcp.hide_tools" if server.name in self._open else "mcp.show_tools"
                ui.button(view.say(key), on_click=lambda: self._toggle(server.name)).props(
                    "flat dense no-caps"
                )
            if view.may(AccessRole.OWNER):
                self._draw_actions(server)

    def _draw_actions(self, server: McpServerView) -> None:
        view = self._view
        if not server.entry.disabled:
            ui.button(
                view.say("mcp.restart"),
                on_click=lambda: view.perform(
                    self._area.restart(view.actor, server=server.name),
                    view.say("mcp.restarted", name=server.name),
                    refresh=self.refresh,
                ),
            ).props("flat dense no-caps")
        ui.button(view.say("mcp.change"), on_click=lambda: self._edit(server)).props(
            "flat dense no-caps"
        )
        ui.button(view.say("mcp.remove"), on_click=lambda: self._remove(server)).props(
            "flat dense no-caps"
        )

    async def _toggle(self, name: str) -> None:
        self._open ^= {name}
        await self._draw()

    async def _edit(self, server: McpServerView | None) -> None:
        present = await self._area.all(self._view.actor)
        if server is not None:
            named = (each for each in present.servers if each.name == server.name)
            server = next(named, server)
        self._editor.clear()
        with self._editor:
            McpForm(self._view, server, present.revision, self._editor.clear, self.refresh)
        self._editor.run_method("scrollIntoView")

    async def _remove(self, server: McpServerView) -> None:
        view = self._view
        details = view.say("mcp.remove_tools", count=server.tools)
        if server.secrets:
            details += "\n" + view.say("mcp.remove_secrets", names=", ".join(server.secrets))
        question = view.say("mcp.remove_ask", name=server.name)
        with self._dialogs:  # the dialog stays if the list is drawn anew
            agreed = await confirm(view, question, details=details, button=view.say("mcp.remove"))
        if agreed:
            await view.perform(
                self._area.remove(view.actor, server=server.name),
                view.say("mcp.removed"),
                refresh=self.refresh,
            )
