"""Draws the form of an MCP server, with a test before it is saved."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nicegui import ui

from nekro_core.console.form_view import FormView
from nekro_core.console.view import View
from nekro_core.console.widgets import badge
from nekro_core.operator.mcp import McpServerView, McpTestView, McpToolView
from nekro_core.plugins.forms.fields import FieldKind, FormField
from nekro_core.plugins.forms.from_schema import fields_of_schema
from nekro_core.tools.mcp_client import McpServerEntry


class McpForm:
    """The form of a server.

    Args:
        view: The opened page.
        server: The server to change; None for a new server.
        revision: The revision of the list that the person sees.
        close: Removes the form.
        refresh: Draws the list anew.
    """

    def __init__(
        self,
        view: View,
        server: McpServerView | None,
        revision: str,
        close: Callable[[], Any],
        refresh: Callable[[], Any],
    ) -> None:
        self._view, self._server, self._revision = view, server, revision
        self._close, self._refresh = close, refresh
        names = {*server.secrets, *server.missing} if server else set[str]()
        values: dict[str, Any] = {}
        kept: list[str] = []
        if server is not None:
            values = {
                "server": server.name,
                "entry": server.entry.model_dump(mode="json", exclude_defaults=True),
                "secrets": dict.fromkeys(sorted(names)),
            }
            kept = [f"secrets.{each}" for each in server.secrets]
        with ui.element("section").classes("nc-card"):
            ui.label(view.say("mcp.form_hint")).classes("nc-soft nc-small nc-lines")
            self._form = FormView(view, self._fields(), values, prefix="", kept=kept)
            with ui.element("div").classes("nc-row nc-mcp-buttons"):
                ui.button(view.say("mcp.save"), on_click=self._save).props("unelevated no-caps")
                ui.button(view.say("mcp.test"), on_click=self._test).props("outline no-caps")
                ui.button(view.say("frame.cancel"), on_click=close).props("flat no-caps")
            self._outcome = ui.element("div").classes("nc-wide").props('role="status"')

    def _fields(self) -> tuple[FormField, ...]:
        view = self._view
        inner = tuple(
            replace(
                each,
                title=view.say(f"mcp.field_{each.name}"),
                help=view.say(f"mcp.help_{each.name}") if each.name in ("env", "timeout") else "",
            )
            for each in fields_of_schema(McpServerEntry.model_json_schema())
        )
        return (
            FormField(
                name="server",
                kind=FieldKind.TEXT,
                title=view.say("mcp.field_server"),
                required=True,
                read_only=self._server is not None,
            ),
            FormField(
                name="entry",
                kind=FieldKind.TABLE,
                title=view.say("mcp.field_entry"),
                required=True,
                fields=inner,
            ),
            FormField(
                name="secrets",
                kind=FieldKind.TABLE,
                title=view.say("mcp.field_secrets"),
                item=FormField(name="", kind=FieldKind.SECRET, title=view.say("mcp.value")),
            ),
        )

    async def _save(self) -> None:
        area, actor = self._view.operator.mcp, self._view.actor
        saved: list[bool] = []
        await self._form.send(
            lambda entered: area.put.invoke(actor, {**entered, "revision": self._revision}),
            self._view.say("mcp.saved"),
            refresh=lambda: saved.append(True),
        )
        if saved:
            self._close()
            await self._refresh()

    async def _test(self) -> None:
        view, area = self._view, self._view.operator.mcp
        self._outcome.clear()
        with self._outcome, ui.element("div").classes("nc-row"):
            ui.spinner(size="22px")
            ui.label(view.say("mcp.testing"))
        tested = await self._form.send(
            lambda entered: area.test.invoke(view.actor, entered), view.say("mcp.tested")
        )
        self._outcome.clear()
        if tested is not None:
            with self._outcome:
                self._draw_test(tested)

    def _draw_test(self, tested: McpTestView) -> None:
        view = self._view
        with ui.element("div").classes("nc-row"):
            key = "mcp.works" if tested.works else "mcp.works_not"
            badge(view.say(key), "good" if tested.works else "bad")
            ui.label(f"{tested.seconds:.1f} s").classes("nc-soft nc-small")
        if tested.reason:
            ui.label(tested.reason).classes("nc-bad nc-lines")
        draw_tools(view, tested.tools)


def draw_tools(view: View, tools: tuple[McpToolView, ...] | list[McpToolView]) -> None:
    """Draw tools as the model sees them."""
    if not tools:
        ui.label(view.say("mcp.no_tools")).classes("nc-soft")
    for each in tools:
        with ui.element("div").classes("nc-mcp-tool"):
            ui.label(f"{each.name.partition('.')[0]}.{each.signature}").classes("nc-mcp-signature")
            ui.label(each.description).classes("nc-soft nc-small nc-lines")
