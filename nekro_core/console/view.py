"""One opened page of the console: who looks at it, in which language, and what it may call."""

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
"""How long a message offers to take a change back, in seconds."""

Result = TypeVar("Result")


def link_to(address: str) -> str:
    """Return what `ui.link` and `ui.navigate.to` take for an address of the console: they put the
    path at which the pages are served, ``/ui``, in front of it."""
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
        place: What follows the page's name in the address, by the names in `ConsolePage.path`.
        look_again: Finds out who looks at the page now; None if nobody may any more. The page stays
            open for long, and meanwhile the person may be logged out or get another role.
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
        """Return the text of a code that a lower room gave, in the language of the page; empty if
        there is none, for example because an adapter made the code."""
        if key not in console_texts().keys(LANGUAGES[0]):
            return ""
        try:
            return self.say(key, **values)
        except KeyError:  # a value of the text is missing
            return ""

    def may(self, role: AccessRole) -> bool:
        """Whether the person may do what needs this role. A page hides what they may not do; the
        actions check it again."""
        return self.actor.role.allows(role)

    async def is_current(self) -> bool:
        """Whether the person who opened the page still has the same rights as then."""
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
        """Carry an action out, and tell the person how it went.

        Args:
            action: The called action.
            done: The text for success. If the change can be taken back, the message has a button
                for it.
            refresh: Called after the action, and after the change was taken back.
            refused: Shows the error, in place of a message at the edge of the page.

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
        except Exception as error:  # noqa: BLE001 - a fault of ours; the page must stay usable
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
        the audit log, it has a button that takes this change back."""
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
