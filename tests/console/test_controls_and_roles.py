"""No page shows a control that calls what the person may not do."""

import pytest

from nekro_core.app import App
from nekro_core.console.frame import ConsolePage
from nekro_core.console.pages import PAGES
from nekro_core.console.view import View
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from tests.console.reachable_operations import uses_of

pytestmark = pytest.mark.anyio


def view_of(app: App, role: AccessRole) -> View:
    actor = Actor(name=role.value, role=role, origin=RequestOrigin.PAGE)
    return View(operator=app.operations, actor=actor, language="en")


def named(page: ConsolePage) -> str:
    return f"{page.name or 'home'}{page.path}"


@pytest.mark.parametrize("role", [AccessRole.VIEWER, AccessRole.OPERATOR])
@pytest.mark.parametrize("page", PAGES, ids=named)
async def test_a_page_calls_only_what_its_visitor_may_do(
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


async def test_the_reader_reaches_the_actions_of_the_pages_for_an_owner(app: App) -> None:
    """If the reader did not follow the code, the test above could not fail."""
    view = view_of(app, AccessRole.OWNER)
    reached = {use.operation.full_name for page in PAGES for use in uses_of(page.draw, view)}
    acting = {
        name for name, each in app.operations.operations().items() if each.declaration.acts
    }
    print("not reached:", sorted(acting - reached))
    assert len(acting - reached) < 10
