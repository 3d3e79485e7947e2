"""No page shows a control that calls an operation which the person's role does not allow."""

from types import FunctionType

import pytest

from nekro_core.app.app import App
from nekro_core.console.frame import ConsolePage
from nekro_core.console.pages import PAGES
from nekro_core.console.view import View
from nekro_core.console.widgets import role_button
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from tests.console.reachable_operations import uses_of

pytestmark = pytest.mark.anyio

WITHOUT_PAGE = {"requests.reopen", "transfer.import_lines"}
"""Actions that no page calls: one only undoes another action, one is for `nekro import`."""


def view_of(app: App, role: AccessRole) -> View:
    actor = Actor(name=role.value, role=role, origin=RequestOrigin.PAGE)
    return View(operator=app.operations, actor=actor, language="en")


def named(page: ConsolePage) -> str:
    return f"{page.name or 'home'}{page.path}"


@pytest.mark.parametrize("role", [AccessRole.VIEWER, AccessRole.OPERATOR])
@pytest.mark.parametrize("page", PAGES, ids=named)
async def test_a_page_calls_only_operations_that_its_visitor_may_use(
    app: App, page: ConsolePage, role: AccessRole
) -> None:
    if not role.allows(page.role):
        pytest.skip("the frame does not draw the page for this role")
    view = view_of(app, role)
    denied = {
        use.operation.full_name: use.place
        for use in uses_of(page.draw, view)
        if not role.allows(use.operation.declaration.role)
    }
    assert denied == {}, f"guard these with view.may(...), for example with `role_button`: {denied}"


async def test_uses_of_finds_the_actions_of_all_pages_for_an_owner(
    app: App,
) -> None:
    """If `uses_of` did not follow the code of the pages, the test above could not fail."""
    view = view_of(app, AccessRole.OWNER)
    reached = {use.operation.full_name for page in PAGES for use in uses_of(page.draw, view)}
    acting = {name for name, each in app.operations.operations().items() if each.declaration.acts}
    assert acting - reached == WITHOUT_PAGE, "the reader does not find the calls of these actions"


def _hidden(view: View) -> None:
    if not view.may(AccessRole.OWNER):
        return
    role_button(view, AccessRole.VIEWER, "x", lambda: _press(view))


def _disabled(view: View) -> None:
    role_button(view, AccessRole.OWNER, "x", lambda: _press(view))


def _shown(view: View) -> None:
    if view.language == "en":
        role_button(view, AccessRole.VIEWER, "x", lambda: _press(view))


async def _press(view: View) -> None:
    await view.perform(view.operator.plugins.install(view.actor, source="x"), "done")


@pytest.mark.parametrize("draw", [_hidden, _disabled, _shown])
def test_uses_of_finds_the_call_of_a_button_unless_the_button_is_hidden_or_disabled(
    app: App, draw: FunctionType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for function in (_hidden, _disabled, _shown, _press):
        monkeypatch.setattr(function, "__module__", "nekro_core.console.test")
    called = {
        role: {each.operation.full_name for each in uses_of(draw, view_of(app, role))}
        for role in (AccessRole.OPERATOR, AccessRole.OWNER)
    }
    assert called[AccessRole.OWNER] == {"plugins.install"}
    assert called[AccessRole.OPERATOR] == ({"plugins.install"} if draw is _shown else set())
