"""Draws the library of personas."""

from nicegui import ui

from nekro_core.console.persona_trial import draw_trial
from nekro_core.console.persona_versions import draw_versions
from nekro_core.console.view import View
from nekro_core.console.widgets import badge, empty, heading, local_time
from nekro_core.operator.errors import ChangedMeanwhile
from nekro_core.operator.personas import PersonaLine
from nekro_core.operator.roles import AccessRole
from nekro_core.policy.personas import MAX_TEXT
from nekro_core.system.errors import NekroError

_READ_AGAIN_S = 4.0
_PREVIEW = 160


async def personas_page(view: View) -> None:
    """Draw the page."""
    ui.label(view.say("personas.lead")).classes("nc-lead")
    library = _Library(view)
    await library.refresh()
    ui.timer(_READ_AGAIN_S, library.refresh, immediate=False)


class _Library:
    """The lists of personas, and the editor of the persona that is open."""

    def __init__(self, view: View) -> None:
        self._view, self._area = view, view.operator.personas
        self._shown: tuple[list[PersonaLine], list[PersonaLine], str] | None = None
        self._editor = ui.element("div").classes("nc-wide nc-personas-editor")
        if view.may(AccessRole.OPERATOR):
            ui.button(view.say("personas.new"), icon="add", on_click=self._begin).props(
                "outline no-caps"
            ).classes("nc-personas-new")
        self._list = ui.element("div").classes("nc-list")

    async def refresh(self) -> None:
        """Draw the lists anew if they have changed. An open editor stays as it is."""
        view, area = self._view, self._area
        present = (
            await area.all(view.actor),
            await area.all(view.actor, removed=True),
            await area.everywhere(view.actor),
        )
        if present == self._shown:
            return
        self._shown = present
        used, removed, everywhere = present
        self._list.clear()
        with self._list:
            if not used:
                empty(view, "personas.nothing")
            for each in used:
                self._draw_line(each, everywhere=each.name == everywhere)
            if removed:
                heading(view.say("personas.removed"))
            for each in removed:
                self._draw_removed(each)

    def _draw_line(self, line: PersonaLine, *, everywhere: bool) -> None:
        view = self._view
        with ui.element("article").classes("nc-card"):
            with ui.element("div").classes("nc-row"):
                ui.label(line.name).classes("nc-personas-name nc-grow")
                if everywhere:
                    badge(view.say("personas.everywhere"), "good")
                about = view.say(
                    "personas.version", number=line.revision, time=local_time(line.saved_at)
                )
                ui.label(" · ".join(filter(None, (about, line.by)))).classes("nc-soft nc-small")
            preview = line.text[:_PREVIEW] + ("…" if len(line.text) > _PREVIEW else "")
            ui.label(preview).classes("nc-soft nc-text")
            with ui.element("div").classes("nc-row"):
                ui.button(view.say("personas.open"), on_click=lambda: self._open(line.name)).props(
                    "flat dense no-caps"
                )
                if view.may(AccessRole.OPERATOR):
                    self._draw_use(line, everywhere=everywhere)
                    ui.button(
                        view.say("personas.remove"),
                        on_click=lambda: view.perform(
                            self._area.remove(
                                view.actor, persona=line.name, revision=line.revision
                            ),
                            view.say("personas.was_removed", name=line.name),
                            refresh=self.refresh,
                        ),
                    ).props("flat dense no-caps")

    def _draw_use(self, line: PersonaLine, *, everywhere: bool) -> None:
        view = self._view
        given = {"persona": "" if everywhere else line.name}
        done = "personas.used_nowhere" if everywhere else "personas.used_everywhere"
        ui.button(
            view.say("personas.use_nowhere" if everywhere else "personas.use_everywhere"),
            on_click=lambda: view.perform(
                self._area.use_everywhere.invoke(view.actor, given),
                view.say(done, name=line.name),
                refresh=self.refresh,
            ),
        ).props("flat dense no-caps")

    def _draw_removed(self, line: PersonaLine) -> None:
        view = self._view
        with ui.element("article").classes("nc-card nc-row"):
            ui.label(line.name).classes("nc-grow")
            ui.label(local_time(line.removed_at)).classes("nc-soft nc-small")
            if view.may(AccessRole.OPERATOR):
                ui.button(
                    view.say("personas.bring_back"),
                    on_click=lambda: view.perform(
                        self._area.bring_back(view.actor, persona=line.name),
                        view.say("personas.is_back", name=line.name),
                        refresh=self.refresh,
                    ),
                ).props("flat dense no-caps")

    async def _open(self, name: str) -> None:
        persona = await self._area.one(self._view.actor, persona=name)
        self._editor.clear()
        with self._editor:
            await _Editor(
                self._view, persona.name, persona.newest.text, persona.revision, self
            ).draw()
        self._editor.run_method("scrollIntoView")

    async def _begin(self) -> None:
        self._editor.clear()
        with self._editor:
            await _Editor(self._view, "", "", 0, self).draw()

    async def saved(self, name: str) -> None:
        """Show a persona with its newest version."""
        await self.refresh()
        await self._open(name)

    def close(self) -> None:
        """Close the editor."""
        self._editor.clear()


class _Editor:
    """The editor of one persona. ``name`` is empty if the persona is new. ``revision`` is the
    revision whose text is shown."""

    def __init__(self, view: View, name: str, text: str, revision: int, library: _Library) -> None:
        self._view, self._area = view, view.operator.personas
        self._name, self._first, self._revision = name, text, revision
        self._library = library

    async def draw(self) -> None:
        """Draw the editor into the current element of the page."""
        view = self._view
        acts = view.may(AccessRole.OPERATOR)
        with ui.element("section").classes("nc-card"):
            with ui.element("div").classes("nc-row"):
                title = self._name or view.say("personas.new")
                ui.label(title).classes("nc-personas-name nc-grow").props(
                    'role="heading" aria-level="2"'
                )
                close = ui.button(icon="close", on_click=self._library.close)
                close.props("flat round dense").props["aria-label"] = view.say("frame.close")
            if not self._name:
                self._named = ui.input(view.say("personas.name")).props("outlined dense")
                self._named.classes("nc-wide")
            self._text = ui.textarea(view.say("personas.text"), value=self._first)
            self._text.props(f"outlined autogrow maxlength={MAX_TEXT}").classes("nc-wide")
            if not acts:
                self._text.props("readonly")
            else:
                self._note = ui.input(view.say("personas.note")).props("outlined dense")
                self._note.classes("nc-wide")
                self._notice = ui.label("").classes("nc-bad nc-lines").props('role="alert"')
                ui.button(view.say("personas.save"), on_click=self._save).props(
                    "unelevated no-caps"
                )
                await draw_trial(view, lambda: str(self._text.value or ""))
            if self._name:
                persona = await self._area.one(view.actor, persona=self._name)
                draw_versions(view, persona, self._restored)

    async def _restored(self) -> None:
        await self._library.saved(self._name)

    async def _save(self) -> None:
        view = self._view
        name = self._name or str(self._named.value or "").strip()
        self._notice.text = ""
        saved = await view.perform(
            self._area.save.invoke(
                view.actor,
                {
                    "persona": name,
                    "text": self._text.value or "",
                    "revision": self._revision,
                    "note": self._note.value or "",
                },
            ),
            view.say("personas.saved"),
            refresh=self._library.refresh,
            refused=self._refuse,
        )
        if saved is not None:
            await self._library.saved(saved.name)

    def _refuse(self, error: NekroError) -> None:
        self._notice.text = str(error)
        if isinstance(error, ChangedMeanwhile):
            self._notice.text += "\n" + self._view.say("personas.changed_meanwhile")
