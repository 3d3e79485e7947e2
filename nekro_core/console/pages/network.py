"""Draws the network rules of boxes, and the connections that were refused lately."""

from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui

from nekro_core.console.chat_chooser import choose_chat
from nekro_core.console.view import View
from nekro_core.console.widgets import confirm, empty, heading, local_time
from nekro_core.operator.errors import ChangedMeanwhile, OperatorError
from nekro_core.operator.roles import AccessRole
from nekro_core.sandbox.egress.admin import EgressShown, EgressTable
from nekro_core.sandbox.egress.refusals import EgressRefusal
from nekro_core.system.errors import NekroError

_READ_AGAIN_S = 3.0


async def network_page(view: View) -> None:
    """Draw the page."""
    ui.label(view.say("network.lead")).classes("nc-lead")
    page = _NetworkPage(view)
    await page.refresh()
    ui.timer(_READ_AGAIN_S, page.refresh, immediate=False)


class _NetworkPage:
    """The rules, the form of one table of rules, and the refusals."""

    def __init__(self, view: View) -> None:
        self._view, self._area = view, view.operator.network
        self._rules: EgressShown | None = None
        self._refused: list[EgressRefusal] | None = None
        self._editor = ui.element("div").classes("nc-wide nc-network-editor")
        self._dialogs = ui.element("div")
        self._tables = ui.element("div").classes("nc-list")
        if view.may(AccessRole.OPERATOR):
            ui.button(view.say("network.add"), icon="add", on_click=self._add).props(
                "outline no-caps"
            ).classes("nc-more")
        heading(view.say("network.refused"))
        self._refusals = ui.element("div").classes("nc-list")

    async def refresh(self) -> None:
        """Draw what has changed. An open form stays as it is."""
        rules = await self._area.rules(self._view.actor)
        refused = await self._area.refused(self._view.actor)
        if rules != self._rules:
            self._rules = rules
            self._tables.clear()
            with self._tables:
                self._draw_rules(rules)
        if refused != self._refused:
            self._refused = refused
            self._refusals.clear()
            with self._refusals:
                if not refused:
                    empty(self._view, "network.nothing_refused")
                for each in refused:
                    self._draw_refusal(each)

    def _draw_rules(self, rules: EgressShown) -> None:
        view = self._view
        if rules.problem:
            ui.label(rules.problem).classes("nc-bad nc-lines")
        with ui.element("article").classes("nc-card"):
            ui.label(view.say("network.default")).classes("nc-network-name")
            self._draw_lists(rules.default)
            ui.label(view.say("network.default_hint")).classes("nc-soft nc-small")
        for each in rules.tables:
            self._draw_table(each, rules.revision)

    def _draw_table(self, table: EgressTable, revision: str) -> None:
        view = self._view
        with ui.element("article").classes("nc-card"):
            title = table.owner
            if table.box:
                title = view.say("network.box_of", box=table.box, owner=table.owner)
            ui.label(title).classes("nc-network-name nc-lines")
            self._draw_lists(table)
            if view.may(AccessRole.OPERATOR):
                with ui.element("div").classes("nc-row"):
                    # With the revision of what is shown: somebody may have changed it meanwhile.
                    ui.button(
                        view.say("network.change"), on_click=lambda: self._edit(table, revision)
                    ).props("flat dense no-caps")
                    ui.button(
                        view.say("network.remove"), on_click=lambda: self._remove(table, revision)
                    ).props("flat dense no-caps")

    def _draw_lists(self, table: EgressTable) -> None:
        view = self._view
        if not table.allow and not table.private:
            ui.label(view.say("network.closed")).classes("nc-soft")
        for key, rules in (("allow", table.allow), ("private", table.private)):
            if rules:
                with ui.element("div").classes("nc-row"):
                    ui.label(view.say(f"network.{key}")).classes("nc-soft nc-small")
                    for each in rules:
                        ui.label(each).classes("nc-network-rule")

    def _draw_refusal(self, refusal: EgressRefusal) -> None:
        view = self._view
        with ui.element("article").classes("nc-card"):
            with ui.element("div").classes("nc-row"):
                ui.label(refusal.destination).classes("nc-network-name nc-grow")
                times = view.say(
                    "network.times", count=refusal.count, time=local_time(refusal.last_at)
                )
                ui.label(times).classes("nc-soft nc-small")
            ui.label(refusal.reason).classes("nc-small nc-lines")
            ui.label(refusal.owner).classes("nc-soft nc-small nc-lines")
            if view.may(AccessRole.OPERATOR):
                with ui.element("div").classes("nc-row"):
                    ui.button(
                        view.say("network.allow_it"), on_click=lambda: self._allow(refusal)
                    ).props("flat dense no-caps")
                    ui.button(
                        view.say("network.forget"),
                        on_click=lambda: view.perform(
                            self._area.forget_refused(view.actor, owner=refusal.owner),
                            view.say("network.forgotten"),
                            refresh=self.refresh,
                        ),
                    ).props("flat dense no-caps")

    async def _allow(self, refusal: EgressRefusal) -> None:
        """Open the form for the chat of a refusal. It has the rules of the chat, or if the chat has
        none, the rules of the settings; and in addition the refused destination."""
        rules = await self._area.rules(self._view.actor)
        mine = (each for each in rules.tables if each.owner == refusal.owner and not each.box)
        present = next(mine, rules.default)
        await self._edit(
            EgressTable(
                owner=refusal.owner,
                allow=(*present.allow, refusal.destination),
                private=present.private,
            ),
            rules.revision,
        )

    async def _add(self) -> None:
        """Open the form for new rules."""
        await self._edit(None, (await self._area.rules(self._view.actor)).revision)

    async def _edit(self, table: EgressTable | None, revision: str) -> None:
        """Open the form. ``revision`` is the revision from which ``table`` was read."""
        self._editor.clear()
        with self._editor:
            await _RulesForm(self._view, table, revision, self._editor.clear, self.refresh).draw()
        self._editor.run_method("scrollIntoView")

    async def _remove(self, table: EgressTable, revision: str) -> None:
        view, tables = self._view, self._rules.tables if self._rules else ()
        boxes = [each.box for each in tables if each.owner == table.owner and each.box]
        # The audit log cannot undo the removal of several tables, so ask the person.
        if not table.box and boxes:
            question = view.say("network.remove_ask", owner=table.owner)
            details = view.say("network.remove_boxes", boxes=", ".join(boxes))
            button = view.say("network.remove")
            with self._dialogs:  # the dialog stays if the list is drawn anew
                agreed = await confirm(view, question, details=details, button=button)
            if not agreed:
                return
        await view.perform(
            self._area.remove(view.actor, owner=table.owner, box=table.box, revision=revision),
            view.say("network.removed"),
            refresh=self.refresh,
        )


class _RulesForm:
    """The form of the rules of a chat or of one of its boxes. ``table`` is None for new rules."""

    def __init__(
        self,
        view: View,
        table: EgressTable | None,
        revision: str,
        close: Callable[[], Any],
        refresh: Callable[[], Any],
    ) -> None:
        self._view, self._revision = view, revision
        self._table = table or EgressTable(owner="")
        self._close, self._refresh = close, refresh

    async def draw(self) -> None:
        """Draw the form into the current element of the page."""
        view, table = self._view, self._table
        with ui.element("section").classes("nc-card nc-network-form"):
            self._owner = await choose_chat(view, view.say("network.chat"), table.owner)
            self._box = ui.input(view.say("network.box"), value=table.box)
            self._box.props("outlined dense").classes("nc-wide")
            if table.owner:
                self._owner.disable()
                self._box.disable()
            self._allow = self._rules("network.allow_field", table.allow)
            self._private = self._rules("network.private_field", table.private)
            ui.label(view.say("network.hint")).classes("nc-soft nc-small nc-lines")
            self._notice = ui.label("").classes("nc-bad nc-lines").props('role="alert"')
            with ui.element("div").classes("nc-row"):
                ui.button(view.say("network.save"), on_click=self._save).props("unelevated no-caps")
                ui.button(view.say("frame.cancel"), on_click=self._close).props("flat no-caps")

    def _rules(self, key: str, rules: Sequence[str]) -> ui.textarea:
        area = ui.textarea(self._view.say(key), value="\n".join(rules))
        return area.props("outlined autogrow spellcheck=false").classes("nc-wide")

    async def _save(self) -> None:
        view = self._view
        self._notice.text = ""
        if not self._owner.value:
            self._refuse(OperatorError(view.say("network.choose_chat")))
            return
        outcome: list[bool] = []
        await view.perform(
            view.operator.network.put.invoke(
                view.actor,
                {
                    "owner": self._owner.value,
                    "box": (self._box.value or "").strip(),
                    "allow": _lines(self._allow),
                    "private": _lines(self._private),
                    "revision": self._revision,
                },
            ),
            view.say("network.saved"),
            refresh=lambda: outcome.append(True),
            refused=self._refuse,
        )
        if outcome:
            self._close()
            await self._refresh()

    def _refuse(self, error: NekroError) -> None:
        self._notice.text = str(error)
        if isinstance(error, ChangedMeanwhile):
            self._notice.text += "\n" + self._view.say("network.changed_meanwhile")


def _lines(area: ui.textarea) -> list[str]:
    return [each.strip() for each in (area.value or "").splitlines() if each.strip()]
