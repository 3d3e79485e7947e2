"""Manages the people of the console: who they are, what they may do, and how they log in."""

from dataclasses import replace
from typing import Annotated

from pydantic import Field, SecretStr

from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change, UndoCall
from nekro_core.operator.errors import NoSuchItem, NotAllowed, OperatorError
from nekro_core.operator.identity import Enrolment, Identity, UnknownPerson
from nekro_core.operator.people_views import (
    InvitationView,
    NewToken,
    PersonView,
    SessionView,
    TokenView,
    person_view,
    session_view,
    token_view,
)
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.store import ConsolePerson, PersonState

JOIN_PATH = "/join?token="
"""The path of an invitation's address. The secret is put after it."""

_NOT_GIVEN = SecretStr("")
Name = Annotated[str, Field(min_length=1, max_length=200)]
Number = Annotated[int, Field(ge=1)]


class People(Area):
    """The people of the console.

    Args:
        audit: The audit log.
        identity: What the bot knows of the people.
    """

    name = "people"

    def __init__(self, audit: AuditLog, identity: Identity) -> None:
        super().__init__(audit)
        self._identity = identity

    @query(role=AccessRole.OWNER)
    async def everybody(self, actor: Actor) -> list[PersonView]:  # noqa: ARG002
        """List all people in the order in which they were added."""
        found = await self._identity.people.all()
        return [replace(person_view(each), last_seen=await self._last_seen(each)) for each in found]

    @query(role=AccessRole.VIEWER)
    async def myself(self, actor: Actor) -> PersonView:
        """Show the person who asks."""
        person = await self._own(actor)
        return person_view(person, await self._identity.second_factor.codes_left(person))

    @action(role=AccessRole.OWNER)
    async def invite(
        self,
        actor: Actor,
        *,
        name: Name,
        role: AccessRole = AccessRole.VIEWER,
    ) -> Change[InvitationView]:
        """Add a person, and make the link with which they choose a password. It works for 3 days.

        Args:
            name: The person's name: up to 40 visible characters.
            role: What the person may do.
        """
        _by_person(actor)
        person, secret = await self._identity.people.invite(name, role)
        link = InvitationView(name=person.name, path=f"{JOIN_PATH}{secret}")
        return Change(result=link, subject=person.name, new=role)

    @action(role=AccessRole.OWNER)
    async def reset_password(self, actor: Actor, *, name: Name) -> Change[InvitationView]:
        """Make a new link with which a person chooses a password. The present password works until
        the link is used. Then all sessions of the person end.

        Args:
            name: The person's name.
        """
        _by_person(actor)
        person = await self._one(name)
        if person.state is PersonState.DISABLED:
            raise OperatorError(f"{person.name} is disabled: enable them first")
        secret = await self._identity.people.new_link(person)
        link = InvitationView(name=person.name, path=f"{JOIN_PATH}{secret}")
        return Change(result=link, subject=person.name)

    @action(role=AccessRole.OWNER)
    async def change_role(
        self,
        actor: Actor,
        *,
        name: Name,
        role: AccessRole,
    ) -> Change[PersonView]:
        """Change what a person may do. The change applies from their next request on.

        Args:
            name: The person's name.
            role: The new role. The last owner cannot get another role.
        """
        _by_person(actor)
        person = await self._one(name)
        await self._identity.people.change_role(person, role)
        undo = UndoCall(
            action="people.change_role", parameters={"name": person.name, "role": person.role}
        )
        changed = person_view(await self._one(name))
        return Change(result=changed, subject=person.name, old=person.role, new=role, undo=undo)

    @action(role=AccessRole.OWNER)
    async def disable(self, actor: Actor, *, name: Name) -> Change[PersonView]:  # noqa: ARG002
        """Disable a person, so that they can no longer log in. Their sessions, API tokens and link
        are deleted.

        Args:
            name: The person's name. The last owner cannot be disabled.
        """
        person = await self._one(name)
        await self._identity.people.disable(person)
        undo = UndoCall(action="people.enable", parameters={"name": person.name})
        changed = await self._one(name)
        return Change(
            result=person_view(changed),
            subject=person.name,
            old=person.state,
            new=changed.state,
            undo=undo,
        )

    @action(role=AccessRole.OWNER)
    async def enable(self, actor: Actor, *, name: Name) -> Change[PersonView]:  # noqa: ARG002
        """Let a disabled person log in again.

        Args:
            name: The person's name.
        """
        person = await self._one(name)
        await self._identity.people.enable(person)
        changed = await self._one(name)
        return Change(
            result=person_view(changed), subject=person.name, old=person.state, new=changed.state
        )

    @action(role=AccessRole.VIEWER)
    async def rename_myself(self, actor: Actor, *, name: Name) -> Change[PersonView]:
        """Change the name of the person who asks.

        Args:
            name: The new name: up to 40 visible characters.
        """
        person = await self._own(actor)
        _by_person(actor)
        valid = await self._identity.people.rename(person, name)
        changed = person_view(await self._one(valid))
        return Change(result=changed, subject=person.name, old=person.name, new=valid)

    @action(role=AccessRole.VIEWER)
    async def set_password(
        self,
        actor: Actor,
        *,
        password: SecretStr,
        present: SecretStr = _NOT_GIVEN,
        session_id: Annotated[int, Field(ge=0)] = 0,
    ) -> Change[None]:
        """Choose a new password for oneself. All own sessions end, except the session
        ``session_id``.

        Args:
            password: The new password: 12 to 256 characters.
            present: The present password. Not needed by a person who has none.
            session_id: The own session that does not end; 0 if all end.
        """
        _by_person(actor)
        person = await self._own(actor)
        await self._check_present(actor, person, present)
        await self._identity.people.set_password(
            person, password.get_secret_value(), session_id=session_id
        )
        return Change(result=None, subject=person.name)

    @action(role=AccessRole.VIEWER)
    async def begin_second_factor(
        self, actor: Actor, *, present: SecretStr = _NOT_GIVEN
    ) -> Change[Enrolment]:
        """Make the secret for an authenticator program. A login asks for a code only after
        `confirm_second_factor`.

        Args:
            present: The present password. Not needed by a person who has none.
        """
        _by_person(actor)
        person = await self._own(actor)
        await self._check_present(actor, person, present)
        enrolment = await self._identity.second_factor.begin(person)
        return Change(result=enrolment, subject=person.name)

    @action(role=AccessRole.VIEWER)
    async def confirm_second_factor(
        self, actor: Actor, *, code: SecretStr
    ) -> Change[tuple[str, ...]]:
        """Put the new second factor in force. The result is the recovery codes, each of which works
        once. They cannot be shown again.

        Args:
            code: The code that the authenticator shows now.
        """
        _by_person(actor)
        person = await self._own(actor)
        codes = await self._identity.second_factor.confirm(person, code.get_secret_value())
        return Change(result=codes, subject=person.name, new="second factor")

    @action(role=AccessRole.VIEWER, destructive=True)
    async def remove_second_factor(
        self,
        actor: Actor,
        *,
        name: str = "",
        present: SecretStr = _NOT_GIVEN,
    ) -> Change[PersonView]:
        """Remove the second factor of the person who asks. An owner may remove the second factor of
        another person, for example of a person who has lost their telephone and recovery codes.

        Args:
            name: The person; empty for oneself.
            present: The own present password. Not needed by a person who has none.
        """
        _by_person(actor)
        own = await self._own(actor)
        person = await self._one(name) if name else own
        if person.person_id != own.person_id and not actor.role.allows(AccessRole.OWNER):
            raise NotAllowed("only an owner may remove the second factor of another person")
        await self._check_present(actor, own, present)
        await self._identity.second_factor.remove(person)
        changed = person_view(await self._one(person.name))
        return Change(result=changed, subject=person.name, old="second factor")

    @query(role=AccessRole.VIEWER)
    async def sessions(self, actor: Actor, *, name: str = "") -> list[SessionView]:
        """List the browsers in which a person is logged in, the most recently used first.

        Args:
            name: The person; empty for oneself. An owner may name others.
        """
        person = await self._own_or_others(actor, name)
        found = await self._identity.sessions.of(person)
        return [session_view(each, person.name) for each in found]

    @action(role=AccessRole.VIEWER)
    async def end_session(self, actor: Actor, *, session_id: Number) -> Change[SessionView]:
        """Log a browser out. Open pages of it are closed within seconds.

        Args:
            session_id: The session's number. An owner may end the sessions of others.
        """
        for person in await self._reachable(actor):
            for each in await self._identity.sessions.of(person):
                if each.session_id == session_id:
                    await self._identity.sessions.end(session_id)
                    view = session_view(each, person.name)
                    return Change(result=view, subject=person.name, old=each.user_agent)
        raise NoSuchItem(f"there is no session {session_id}, or it is another person's")

    @action(role=AccessRole.VIEWER)
    async def end_sessions(self, actor: Actor, *, name: str = "") -> Change[int]:
        """Log all browsers of a person out. Returns the number of sessions that ended.

        Args:
            name: The person; empty for oneself. An owner may name others.
        """
        person = await self._own_or_others(actor, name)
        ended = await self._identity.sessions.end_all(person)
        return Change(result=ended, subject=person.name, old=f"{ended} sessions")

    @query(role=AccessRole.VIEWER)
    async def tokens(self, actor: Actor, *, name: str = "") -> list[TokenView]:
        """List the API tokens of a person.

        Args:
            name: The person; empty for oneself. An owner may name others.
        """
        person = await self._own_or_others(actor, name)
        found = await self._identity.tokens.all()
        return [
            token_view(each, person.name) for each in found if each.person_id == person.person_id
        ]

    @action(role=AccessRole.VIEWER)
    async def make_token(
        self,
        actor: Actor,
        *,
        label: Name,
        scopes: Annotated[tuple[str, ...], Field(min_length=1, max_length=50)],
        days: Annotated[float, Field(ge=0, le=3660)] = 90,
    ) -> Change[NewToken]:
        """Make a token of the HTTP API for oneself. It can never do more than the person's role
        allows at the time of the request.

        Args:
            label: What the token is called in the list.
            scopes: What it may do: an area with ``:read`` or ``:act``, such as ``turns:read``, or
                ``*`` for everything.
            days: For how many days it works; 0 for ever.
        """
        _by_person(actor)
        person = await self._own(actor)
        secret, token = await self._identity.tokens.make(
            person, name=label, scopes=scopes, days=days
        )
        view = token_view(token, person.name)
        return Change(result=NewToken(token=view, secret=secret), subject=person.name, new=view)

    @action(role=AccessRole.VIEWER, destructive=True)
    async def revoke_token(self, actor: Actor, *, token_id: Number) -> Change[TokenView]:
        """Revoke an API token. It is refused from its next request on.

        Args:
            token_id: The token's number. An owner may revoke the tokens of others.
        """
        names = {each.person_id: each.name for each in await self._reachable(actor)}
        token = await self._identity.tokens.one(token_id)
        if token.person_id not in names:
            raise NoSuchItem(f"there is no API token {token_id}, or it is another person's")
        await self._identity.tokens.revoke(token_id)
        view = token_view(token, names[token.person_id])
        return Change(result=view, subject=view.name, old=view)

    async def _last_seen(self, person: ConsolePerson) -> float:
        """Return when a person was last active: the latest use of a session or token that has not
        ended, or the time of their newest entry in the audit log, whichever is later."""
        sessions = await self._identity.sessions.of(person)
        tokens = await self._identity.tokens.all()
        done = await self.audit_log.rows.newest(actor=person.name, limit=1)
        times = [each.last_used for each in sessions]
        times += [each.last_used for each in tokens if each.person_id == person.person_id]
        times += [each.at for each in done]
        return max(times, default=0.0)

    async def _own(self, actor: Actor) -> ConsolePerson:
        """Get the person who asks. Raises `NoSuchItem`."""
        person = await self._identity.people.find(actor.name)
        if person is None or person.state is not PersonState.ACTIVE:
            raise NoSuchItem(f"{actor.name} is no person of the console")
        return person

    async def _one(self, name: str) -> ConsolePerson:
        try:
            return await self._identity.people.one(name)
        except UnknownPerson as error:
            raise NoSuchItem(str(error)) from None

    async def _own_or_others(self, actor: Actor, name: str) -> ConsolePerson:
        """Get the named person, if they are the actor or the actor is an owner."""
        if not name:
            return await self._own(actor)
        person = await self._one(name) if actor.role.allows(AccessRole.OWNER) else None
        if person is None:
            person = await self._own(actor)
            if person.name != name:
                raise NotAllowed("only an owner sees and changes the logins of other people")
        return person

    async def _reachable(self, actor: Actor) -> list[ConsolePerson]:
        if actor.role.allows(AccessRole.OWNER):
            return await self._identity.people.all()
        return [await self._own(actor)]

    async def _check_present(self, actor: Actor, person: ConsolePerson, present: SecretStr) -> None:
        """Raise `NotAllowed` unless ``present`` is the person's password or the person has none. So
        somebody who finds a browser in which the person is logged in cannot take over the login."""
        if not person.password_hash:
            return
        key = f"present password of {person.person_id}"
        wait_s = self._identity.guesses.take(key, actor.address)
        if wait_s:
            raise NotAllowed(f"too many wrong passwords: wait {wait_s:.0f} s")
        hashing = self._identity.people.hashing
        if not await hashing.matches(person.password_hash, present.get_secret_value()):
            raise NotAllowed("the present password is not right")
        self._identity.guesses.succeeded(key, actor.address)


def _by_person(actor: Actor) -> None:
    """Raise `NotAllowed` if the request was made with an API token. Otherwise a program with a
    token could create a login for itself that works longer than the token."""
    if actor.scopes is not None:
        raise NotAllowed("an API token cannot change how people log in: use the page")
