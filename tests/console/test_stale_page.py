"""A page that stays open does nothing more when its person was logged out or has another role."""

from typing import Any

import pytest

from nekro_core.console.view import View
from nekro_core.operator.audit import Done
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin

OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.PAGE)
VIEWER = Actor(name="otto", role=AccessRole.VIEWER, origin=RequestOrigin.PAGE)


@pytest.mark.parametrize(("now", "acts"), [(OTTO, True), (VIEWER, False), (None, False)])
async def test_an_open_page_stops_acting_after_a_logout_or_a_change_of_role(
    now: Actor | None, acts: bool
) -> None:
    done = []

    async def look_again() -> Actor | None:
        return now

    async def act() -> Done[str]:
        done.append("acted")
        return Done(result="acted", entry_id=1, undoable=False)

    no_operator: Any = None
    view = View(operator=no_operator, actor=OTTO, language="en", look_again=look_again)
    assert await view.perform(act(), "done") == ("acted" if acts else None)
    assert bool(done) is acts
