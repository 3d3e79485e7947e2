"""Adds the people of the console, changes their roles and passwords, and disables them."""

import hashlib
import itertools
import secrets
import unicodedata
from collections.abc import Callable
from contextlib import suppress

from nekro_core.operator.identity.errors import (
    InvalidName,
    InvitationSpent,
    LastOwner,
    NameTaken,
    UnknownPerson,
)
from nekro_core.operator.identity.passwords import LONGEST, PasswordHashing, check_password
from nekro_core.operator.roles import AccessRole
from nekro_core.store import ConsolePerson, PersonState, UniqueConflict
from nekro_core.store.console_logins import ConsoleSessionRepository
from nekro_core.store.console_people import ConsolePeopleRepository
from nekro_core.store.limits import MAX_ID

MAX_NAME = 40
"""Maximum number of characters of a name."""
INVITATION_S = 3 * 86_400.0
"""Seconds for which an invitation works."""
FIRST_OWNER = "owner"
"""The name of the owner who is added if there is none when somebody opens a login link for the
owner. The person can change it."""
_SECRET_BYTES = 32


class PeopleDirectory:
    """The people who may open the console."""

    def __init__(
        self,
        people: ConsolePeopleRepository,
        sessions: ConsoleSessionRepository,
        *,
        clock: Callable[[], float],
        hashing: PasswordHashing | None = None,
    ) -> None:
        self._people = people
        self._sessions = sessions
        self._clock = clock
        self.hashing = hashing or PasswordHashing()

    async def all(self) -> list[ConsolePerson]:
        """Get all people in the order in which they were added."""
        return await self._people.all()

    async def find(self, name: str) -> ConsolePerson | None:
        """Get a person by name; None if there is none."""
        return await self._people.named(name_key(name)[:MAX_ID])

    async def one(self, name: str) -> ConsolePerson:
        """Get a person by name. Raises `UnknownPerson`."""
        person = await self.find(name)
        if person is None:
            raise UnknownPerson(f"there is no person {name[:MAX_NAME]!r}; the page People has all")
        return person

    async def numbered(self, person_id: int) -> ConsolePerson | None:
        """Get a person by number; None if there is none."""
        return await self._people.one(person_id)

    async def owner(self) -> ConsolePerson:
        """Get the first active owner. If there is none, add an owner with the name
        `FIRST_OWNER`."""
        for number in itertools.count(1):
            owner = await self._people.first_owner()
            if owner is not None:
                return owner
            # If the name is taken, the next round tries another one. A name is taken if two first
            # links are opened at the same time, or if somebody with the owner's token has invited a
            # person with this name.
            name = FIRST_OWNER if number == 1 else f"{FIRST_OWNER} {number}"
            with suppress(UniqueConflict):
                return await self._people.add(
                    name=name,
                    name_key=name,
                    role=AccessRole.OWNER,
                    state=PersonState.ACTIVE,
                    created=self._clock(),
                )
        raise AssertionError("unreachable")

    async def owner_name(self) -> str:
        """Get the name of the first active owner, without adding one."""
        owner = await self._people.first_owner()
        return owner.name if owner else FIRST_OWNER

    async def invite(self, name: str, role: AccessRole) -> tuple[ConsolePerson, str]:
        """Add a person who has no password yet.

        Args:
            name: The name: 1 to `MAX_NAME` characters that can be seen, and single spaces.
            role: What the person may do.

        Returns:
            The person, and the secret of the link with which they choose a password. It is not
            stored, so it cannot be shown again.

        Raises:
            InvalidName: The name has other characters or is too long.
            NameTaken: Another person has the name.
        """
        valid = valid_name(name)
        try:
            person = await self._people.add(
                name=valid,
                name_key=name_key(valid),
                role=role,
                state=PersonState.INVITED,
                created=self._clock(),
            )
        except UniqueConflict as error:
            raise NameTaken(str(error)) from None
        return person, await self.new_link(person)

    async def new_link(self, person: ConsolePerson) -> str:
        """Make a link with which a person chooses a new password. Returns its secret. Earlier links
        of the person stop working; the present password works until the link is used."""
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        await self._people.invite(person.person_id, _hash(secret), self._clock() + INVITATION_S)
        return secret

    async def invited(self, secret: str) -> ConsolePerson:
        """Get the person of a link without using it up. Raises `InvitationSpent`."""
        person = await self._people.invited(_hash(secret), self._clock())
        if person is None:
            raise InvitationSpent(
                "the link was used before or has expired: ask an owner for a new one"
            )
        return person

    async def accept(self, secret: str, password: str) -> ConsolePerson:
        """Use a link up: the person gets this password, and all their sessions end.

        Returns:
            The person, who is active now.

        Raises:
            InvitationSpent: The link was used before, has expired, or is not known.
            WeakPassword: The password cannot be used. The link still works.
        """
        person = await self.invited(secret)
        check_password(password, name=person.name)
        hashed = await self.hashing.hash(password)
        person_id = await self._people.accept(_hash(secret), hashed, self._clock())
        changed = await self._people.one(person_id) if person_id is not None else None
        if changed is None:
            raise InvitationSpent("the link was used meanwhile: ask an owner for a new one")
        return changed

    async def rename(self, person: ConsolePerson, name: str) -> str:
        """Change a person's name. Returns the name in its stored form. Raises `InvalidName`,
        `NameTaken` and `UnknownPerson`."""
        valid = valid_name(name)
        try:
            renamed = await self._people.rename(person.person_id, valid, name_key(valid))
        except UniqueConflict as error:
            raise NameTaken(str(error)) from None
        if not renamed:
            raise UnknownPerson(f"there is no person {person.name!r} any more")
        return valid

    async def change_role(self, person: ConsolePerson, role: AccessRole) -> None:
        """Change what a person may do. Raises `LastOwner`."""
        if not await self._people.change_role(person.person_id, role):
            raise LastOwner(f"{person.name} is the only owner: make another person an owner first")

    async def disable(self, person: ConsolePerson) -> None:
        """Disable a person, so that they can no longer log in, and delete their sessions, API
        tokens and link. Raises `LastOwner`."""
        if not await self._people.disable(person.person_id):
            raise LastOwner(f"{person.name} is the only owner: make another person an owner first")

    async def enable(self, person: ConsolePerson) -> None:
        """Let a disabled person log in again."""
        await self._people.enable(person.person_id)

    async def set_password(
        self, person: ConsolePerson, password: str, *, session_id: int = 0
    ) -> None:
        """Give a person a new password, and end all their sessions except ``session_id``. Raises
        `WeakPassword`."""
        check_password(password, name=person.name)
        hashed = await self.hashing.hash(password)
        await self._people.set_password(person.person_id, hashed)
        await self._sessions.end_all(person.person_id, but=session_id)

    async def with_password(self, name: str, password: str) -> ConsolePerson | None:
        """Get the active person with this name and password.

        A call with an unknown name, or for a person who has no password or is disabled, takes as
        long as a call with a wrong password.
        """
        person = await self.find(name) if len(name) <= MAX_NAME else None
        stored = person.password_hash if person else ""
        right = await self.hashing.matches(stored, password)
        if person is None or not right or not stored or len(password) > LONGEST:
            return None
        if person.state is not PersonState.ACTIVE:
            return None
        if self.hashing.outdated(stored):
            await self._people.set_password(person.person_id, await self.hashing.hash(password))
        return person


def valid_name(name: str) -> str:
    """Return a name in Unicode's composed form. Raises `InvalidName`."""
    valid = unicodedata.normalize("NFC", name.strip())
    if not valid or len(valid) > MAX_NAME or len(name_key(valid)) > MAX_ID:
        raise InvalidName(f"a name of {len(valid)} characters: expected 1 to {MAX_NAME}")
    for character in valid:
        # The categories "C..." are control characters, invisible formats and lone surrogates.
        category = unicodedata.category(character)[0]
        if category == "C" or (category == "Z" and character != " "):
            raise InvalidName(f"the character {character!r} is not allowed in a name")
    return valid


def name_key(name: str) -> str:
    """Return the form in which names are compared, so that no two people have names that look the
    same in upper and lower case or in another width."""
    folded = unicodedata.normalize("NFKC", " ".join(name.split())).casefold()
    return unicodedata.normalize("NFKC", folded)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
