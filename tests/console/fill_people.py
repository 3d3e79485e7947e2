"""Adds people to the test bot: one of each role, one who is invited, and one who is disabled."""

from nekro_core.app.app import App
from nekro_core.operator.roles import AccessRole

PASSWORD = "correct horse battery"
SCRIPT_NAME = "<img src=x onerror=alert(1)>"


async def fill_people(app: App) -> None:
    """Add people whose names are their roles, an invited and a disabled person."""
    people = app.site.identity.people
    owner = await people.owner()
    await people.set_password(owner, PASSWORD)
    for role in (AccessRole.OPERATOR, AccessRole.VIEWER):
        _, secret = await people.invite(role.value, role)
        await people.accept(secret, PASSWORD)
    await people.invite(SCRIPT_NAME, AccessRole.VIEWER)
    gone, _ = await people.invite("李雷", AccessRole.OPERATOR)
    await people.disable(gone)
