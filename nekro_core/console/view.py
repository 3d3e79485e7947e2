"""Defines one opened page of the console: who opened it, its language, and the operations that it
may call."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from loguru import logger
from nicegui import ui

from nekro_core.chat.catalogue import LANGUAGES
from nekro_core.console.texts import console_texts
from nekro_core.operator.audit import Done
from nekro_core.operator.errors import InvalidParameters
from nekro_core.operator.operator import Operator
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.system.errors import NekroError

ROOT = "/ui/console"
"""The address of the console, below which its pages are."""
UNDO_S = 12.0
"""Number of seconds for which a message offers to undo a change."""

Result = TypeVar("Result")


def link_to(address: str) -> str:
    """Return a console address in the form that `ui.link` and `ui.navigate.to` need. Both put
    ``/ui``, the path at which the pages are served, in front of the address, so it is removed
    here."""
    return address.removeprefix("/ui")


Background = Callable[[], Awaitable[None]]


@dataclass(slots=True, eq=False)
class View:
    """One opened page.

    Attributes:
        operator: The queries and actions.
        actor: Who looks at the page.
        language: One of `LANGUAGES`.
        background: Functions that run while the browser shows the page.
        toasts: The area for short messages; the frame makes it.
        place: The values of the parts of the address that follow the page's name, by the names in
            `ConsolePage.path`.
        look_again: Finds out again who uses the page's login; returns None if it has ended. A page
            may stay open for a long time, and meanwhile the person may be logged out or get another
            role.
        session_id: The number of the browser's session; 0 if there is none.
    """

    operator: Operator
    actor: Actor
    language: str
    background: list[Background] = field(default_factory=list)
    toasts: ui.column | None = None
    place: Mapping[str, str] = field(default_factory=dict)
    look_again: Callable[[], Awaitable[Actor | None]] | None = None
    session_id: int = 0

    def say(self, key: str, **values: object) -> str:
        """Return a text in the language of the page."""
        return console_texts().say(key, self.language, **values)

    def known(self, key: str, **values: object) -> str:
        """Return the text that explains a code, in the language of the page. Other packages of
        ``nekro_core`` return such codes, for example the test of a connection. Returns an empty
        text if the page has no text for the code, for example because an adapter made the code."""
        if key not in console_texts().keys(LANGUAGES[0]):
            return ""
        try:
            return self.say(key, **values)
        except KeyError:  # a value of the text is missing
            return ""

    def may(self, role: AccessRole) -> bool:
        """Return True if the person may do what needs this role. A page hides what the person may
        not do; the actions check the role too."""
        return self.actor.role.allows(role)

    async def is_current(self) -> bool:
        """Return True if the person who opened the page has the same rights as when they opened
        it."""
        return self.look_again is None or await self.look_again() == self.actor

    def while_open(self, task: Background) -> None:
        """Run a function while the browser shows the page. It is cancelled when the page closes."""
        self.background.append(task)

    async def perform(
        self,
        action: Awaitable[Done[Result]],
        done: str,
        *,
        refresh: Callable[[], Any] | None = None,
        refused: Callable[[NekroError], None] | None = None,
    ) -> Result | None:
        """Carry an action out, and tell the person the outcome.

        Args:
            action: The called action.
            done: The text for success. If the change can be undone, the message has a button that
                undoes it.
            refresh: Called after the action, and after the change was undone.
            refused: Shows the error. Without it, a message at the edge of the page shows the error.

        Returns:
            What the action returned; None if it failed.
        """
        try:
            if not await self.is_current():
                if inspect.iscoroutine(action):
                    action.close()
                self.tell(self.say("frame.login_changed"), bad=True)
                return None
            outcome = await action
        except NekroError as error:
            (refused or self.show_error)(error)
            return None
        except Exception as error:  # noqa: BLE001 - after our own fault, the page must stay usable
            logger.exception("an action of the console failed")
            self.tell(f"{type(error).__name__}: {error}", bad=True)
            return None
        entry_id = outcome.entry_id if outcome.undoable else 0
        await _called(refresh)
        self.tell(done, undo=entry_id, refresh=refresh)
        return outcome.result

    def show_error(self, error: NekroError) -> None:
        """Show why something was refused."""
        if isinstance(error, InvalidParameters):
            self.tell("\n".join(f"{name}: {why}" for name, why in error.problems.items()), bad=True)
        else:
            self.tell(str(error), bad=True)

    def tell(
        self,
        text: str,
        *,
        bad: bool = False,
        undo: int = 0,
        refresh: Callable[[], Any] | None = None,
    ) -> None:
        """Show a short message at the edge of the page. If ``undo`` is the number of an entry of
        the audit log, the message has a button that undoes this change."""
        if self.toasts is None:
            return
        with (
            self.toasts,
            ui.row().classes("nc-toast" + (" nc-toast-bad" if bad else "")) as toast,
        ):
            toast.props('role="alert"' if bad else 'role="status"')
            ui.label(text).classes("nc-toast-text")
            if undo:

                async def take_back() -> None:
                    toast.delete()
                    await self.perform(
                        self.operator.audit.undo(self.actor, entry_id=undo),
                        self.say("frame.undone"),
                        refresh=refresh,
                    )

                ui.button(self.say("frame.undo"), on_click=take_back).props("flat dense no-caps")
            close = ui.button(icon="close", on_click=toast.delete).props("flat dense round size=sm")
            close.props(f'aria-label="{self.say("frame.close")}"')
            if not bad:
                ui.timer(UNDO_S, lambda: None if toast.is_deleted else toast.delete(), once=True)


async def _called(function: Callable[[], Any] | None) -> None:
    if function is None:
        return
    result = function()
    if hasattr(result, "__await__"):
        await result
