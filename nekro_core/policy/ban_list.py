"""Lets an operator ban people: the bot ignores them everywhere on a platform or an account."""

from dataclasses import dataclass

from nekro_core.policy.overrides_file import InvalidOverride, PolicyFile


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class BannedPerson:
    """A person whom the bot ignores.

    Attributes:
        place: The adapter's name, for all accounts of the platform; or the instance of one account.
        user_id: The platform's id of the person.
    """

    place: str
    user_id: str


class BanList:
    """The people who are ignored, in the operator's overrides (``[people] ignored = true``).

    Their messages are stored but never answered. A person who is ignored in only one chat is not in
    this list.
    """

    def __init__(self, overrides: PolicyFile) -> None:
        self._overrides = overrides

    def listed(self) -> tuple[BannedPerson, ...]:
        """Return the banned people, sorted by place and id."""
        keys = (key for key, each in self._overrides.book.people.items() if each.ignored)
        parts = (key.partition(":") for key in keys)
        return tuple(sorted(BannedPerson(place=place, user_id=user) for place, _, user in parts))

    async def ban(self, place: str, user_id: str) -> bool:
        """Ban a person. Returns False if the person was banned already. Raises `InvalidOverride`
        and `OSError`."""
        if not place or ":" in place or not user_id.strip():
            raise InvalidOverride(
                f"{place}:{user_id}: expected an adapter or instance, such as onebot_v11, and the "
                "person's id on that platform"
            )
        if BannedPerson(place=place, user_id=user_id) in self.listed():
            return False
        await self._overrides.put(("people", f"{place}:{user_id}"), "ignored", value=True)
        return True

    async def unban(self, place: str, user_id: str) -> bool:
        """End a ban. Returns False if the person was not banned. Raises `InvalidOverride` and
        `OSError`."""
        if BannedPerson(place=place, user_id=user_id) not in self.listed():
            return False
        await self._overrides.put(("people", f"{place}:{user_id}"), "ignored", value=None)
        return True
