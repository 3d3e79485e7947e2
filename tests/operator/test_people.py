"""Owners manage the people of the console, and each person manages their own logins."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pyotp
import pytest
from pydantic import SecretStr

from nekro_core.operator.audit import AuditLog
from nekro_core.operator.errors import InvalidParameters, NoSuchItem, NotAllowed
from nekro_core.operator.identity import (
    Identity,
    InvalidName,
    InvalidToken,
    LastOwner,
    NameTaken,
    WeakPassword,
    WrongCode,
)
from nekro_core.operator.identity.second_factor import RECOVERY_CODES
from nekro_core.operator.people import JOIN_PATH, People
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.store import PersonState, Store

PASSWORD = "correct horse battery"
NOW = 1_700_000_000.0


@dataclass
class Console:
    people: People
    identity: Identity
    store: Store
    owner: Actor

    async def add(self, name: str, role: AccessRole = AccessRole.VIEWER) -> Actor:
        """Add a person with a password. Return the person as the actor of a request from a page."""
        done = await self.people.invite(self.owner, name=name, role=role)
        await self.identity.people.accept(done.result.path.removeprefix(JOIN_PATH), PASSWORD)
        return Actor(name=name, role=role, origin=RequestOrigin.PAGE)

    async def logged(self) -> str:
        """The whole audit log as text."""
        return repr(await self.store.audit.newest(limit=500))


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3", clock=lambda: NOW) as store:
        identity = Identity.of(store, session_key=b"key", session_s=3600, clock=lambda: NOW)
        name = (await identity.people.owner()).name
        owner = Actor(name=name, role=AccessRole.OWNER, origin=RequestOrigin.PAGE)
        yield Console(People(AuditLog(store.audit), identity), identity, store, owner)


async def test_an_owner_invites_promotes_disables_and_enables_a_person(console: Console) -> None:
    people, owner = console.people, console.owner
    invited = await people.invite(owner, name=" Lin  ", role=AccessRole.VIEWER)
    assert invited.result.name == "Lin"
    shown = {each.name: (each.role, each.state) for each in await people.everybody(owner)}
    assert shown == {
        "owner": (AccessRole.OWNER, PersonState.ACTIVE),
        "Lin": (AccessRole.VIEWER, PersonState.INVITED),
    }
    await console.identity.people.accept(invited.result.path.removeprefix(JOIN_PATH), PASSWORD)
    promoted = await people.change_role(owner, name="lin", role=AccessRole.OPERATOR)
    assert (promoted.result.role, promoted.undoable) == (AccessRole.OPERATOR, True)
    gone = await people.disable(owner, name="Lin")
    assert gone.result.state is PersonState.DISABLED
    back = await people.enable(owner, name="Lin")
    assert (back.result.state, back.result.has_password) == (PersonState.ACTIVE, True)
    # The audit log has no text with which somebody could log in.
    logged = await console.logged()
    assert "Lin" in logged
    assert invited.result.path.removeprefix(JOIN_PATH) not in logged


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("LIN", NameTaken),
        ("ｌｉｎ", NameTaken),
        ("l\u200bin", InvalidName),
        ("a\u202eb", InvalidName),
        ("x\ny", InvalidName),
        (" ", InvalidName),
        ("x" * 41, InvalidName),
        ("", InvalidParameters),
        ("x" * 300, InvalidParameters),
    ],
)
async def test_a_name_that_could_be_confused_with_another_is_refused(
    console: Console, name: str, error: type[Exception]
) -> None:
    await console.add("lin")
    with pytest.raises(error):
        await console.people.invite(console.owner, name=name)


async def test_the_last_owner_cannot_be_disabled_or_get_another_role(console: Console) -> None:
    people, owner = console.people, console.owner
    with pytest.raises(LastOwner):
        await people.change_role(owner, name="owner", role=AccessRole.VIEWER)
    with pytest.raises(LastOwner):
        await people.disable(owner, name="owner")
    await console.add("ona", AccessRole.OWNER)
    await people.disable(owner, name="owner")
    with pytest.raises(LastOwner):
        await people.disable(owner, name="ona")


async def test_a_new_password_needs_the_present_one_and_is_nowhere_in_the_log(
    console: Console,
) -> None:
    lin = await console.add("lin")
    people, fresh = console.people, SecretStr("another good password")
    for present in ("", "wrong"):
        with pytest.raises(NotAllowed, match="present password"):
            await people.set_password(lin, password=fresh, present=SecretStr(present))
    await people.set_password(lin, password=fresh, present=SecretStr(PASSWORD))
    find = console.identity.people.with_password
    assert await find("lin", PASSWORD) is None
    assert await find("lin", fresh.get_secret_value()) is not None
    # The owner logged in with a link and has no password yet.
    await people.set_password(console.owner, password=fresh)
    assert fresh.get_secret_value() not in await console.logged()
    assert PASSWORD not in await console.logged()


@pytest.mark.parametrize("weak", ["short", "aaaaaaaaaaaaaaaa", "x" * 257, "owner1234567"])
async def test_a_weak_password_is_refused(console: Console, weak: str) -> None:
    with pytest.raises(WeakPassword, match=r"expected|little more than the name"):
        await console.people.set_password(console.owner, password=SecretStr(weak))


async def test_somebody_at_an_open_browser_can_try_the_present_password_only_five_times(
    console: Console,
) -> None:
    lin, people = await console.add("lin"), console.people
    for _ in range(5):
        with pytest.raises(NotAllowed, match="not right"):
            await people.begin_second_factor(lin, present=SecretStr("wrong"))
    with pytest.raises(NotAllowed, match="too many wrong passwords"):
        await people.begin_second_factor(lin, present=SecretStr(PASSWORD))


async def test_a_second_factor_is_enrolled_confirmed_and_removed(console: Console) -> None:
    lin, people = await console.add("lin"), console.people
    begun = (await people.begin_second_factor(lin, present=SecretStr(PASSWORD))).result
    assert begun.uri.startswith("otpauth://totp/nekro-core:lin?secret=")
    assert begun.svg.startswith("<svg")
    assert not (await people.myself(lin)).has_second_factor
    with pytest.raises(WrongCode):
        await people.confirm_second_factor(lin, code=SecretStr("123456"))
    code = pyotp.TOTP(begun.secret).at(int(NOW))
    codes = (await people.confirm_second_factor(lin, code=SecretStr(code))).result
    assert len(set(codes)) == RECOVERY_CODES
    mine = await people.myself(lin)
    assert (mine.has_second_factor, mine.recovery_codes) == (True, RECOVERY_CODES)
    # Lin has lost the telephone, and the owner removes the second factor.
    helped = await people.remove_second_factor(console.owner, name="lin")
    assert not helped.result.has_second_factor
    logged = await console.logged()
    assert not any(each in logged for each in (begun.secret, code, *codes))


async def test_people_see_and_end_their_own_sessions_and_an_owner_those_of_all(
    console: Console,
) -> None:
    lin, mika, people = await console.add("lin"), await console.add("mika"), console.people
    sessions = console.identity.sessions
    secrets = [
        await sessions.begin(
            await console.identity.people.one(name), address="192.0.2.7", user_agent="Browser 1"
        )
        for name in ("lin", "lin", "mika")
    ]
    own = await people.sessions(lin)
    assert [(each.name, each.address) for each in own] == [("lin", "192.0.2.7")] * 2
    with pytest.raises(NotAllowed):
        await people.sessions(lin, name="mika")
    (theirs,) = await people.sessions(mika)
    with pytest.raises(NoSuchItem, match="another person's"):
        await people.end_session(lin, session_id=theirs.session_id)
    await people.end_session(console.owner, session_id=theirs.session_id)
    assert (await people.end_sessions(lin)).result == 2
    assert [await sessions.find(each) for each in secrets] == [None] * 3


async def test_a_token_is_shown_once_listed_by_its_prefix_and_revoked(console: Console) -> None:
    lin, mika, people = await console.add("lin"), await console.add("mika"), console.people
    made = (await people.make_token(lin, label="ci", scopes=("turns:read",), days=30)).result
    assert made.secret.startswith(made.token.prefix)
    assert await people.tokens(lin) == [made.token]
    assert made.token.expires == NOW + 30 * 86_400
    assert made.secret not in await console.logged()
    assert made.secret.rpartition("_")[2] not in repr(await people.tokens(lin))
    with pytest.raises(NoSuchItem):
        await people.revoke_token(mika, token_id=made.token.token_id)
    assert await console.identity.tokens.find(made.secret)
    await people.revoke_token(lin, token_id=made.token.token_id)
    assert await console.identity.tokens.find(made.secret) is None


@pytest.mark.parametrize(
    ("label", "scopes", "days"),
    [
        ("ci", ("turns",), 1),
        ("ci", ("turns:write",), 1),
        ("ci", ("*:act",), 1),
        ("ci", ("turns:read turns:act",), 1),
        ("a\x00b", ("*",), 1),
        (" ", ("*",), 1),
        ("x" * 61, ("*",), 1),
        ("ci", (), 1),
        ("ci", ("*",), -1),
        ("ci", ("*",), 5000),
        ("ci", ("*",), float("nan")),
    ],
)
async def test_a_token_with_impossible_values_is_refused(
    console: Console, label: str, scopes: tuple[str, ...], days: float
) -> None:
    with pytest.raises((InvalidToken, InvalidParameters)):
        await console.people.make_token(console.owner, label=label, scopes=scopes, days=days)


async def test_the_owner_sees_when_each_person_was_last_active(console: Console) -> None:
    lin = await console.add("Lin")
    await console.people.invite(console.owner, name="Wei", role=AccessRole.VIEWER)
    seen = {each.name: each.last_seen for each in await console.people.everybody(console.owner)}
    assert seen["Lin"] == seen["Wei"] == 0
    await console.people.make_token(lin, label="script", scopes=("turns:read",))
    seen = {each.name: each.last_seen for each in await console.people.everybody(console.owner)}
    assert seen["Lin"] > 0
    assert seen["Wei"] == 0
