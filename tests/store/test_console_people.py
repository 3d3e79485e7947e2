"""People, sessions and tokens of the console are stored, in SQLite and in PostgreSQL."""

import anyio
import pytest

from nekro_core.store import ConsolePerson, PersonState, Store, UniqueConflict
from nekro_core.store.console_logins import MOST_SESSIONS, USED_EVERY_S

from .conftest import Clock

HASH = "0" * 64


NOW = 1_000.0


async def person(store: Store, name: str = "lin", role: str = "owner") -> ConsolePerson:
    return await store.console_people.add(
        name=name, name_key=name, role=role, state=PersonState.ACTIVE, created=NOW
    )


async def session(store: Store, who: ConsolePerson, digest: str, **more: str) -> bool:
    return await store.console_sessions.add(
        person_id=who.person_id,
        session_hash=digest,
        created=NOW,
        expires=NOW + 60,
        address="::1",
        user_agent="Browser",
        **more,
    )


async def test_two_people_cannot_have_the_same_name(store: Store) -> None:
    lin = await person(store)
    with pytest.raises(UniqueConflict, match="taken"):
        await person(store)
    mika = await person(store, "mika")
    with pytest.raises(UniqueConflict):
        await store.console_people.rename(mika.person_id, "Lin", "lin")
    assert await store.console_people.rename(lin.person_id, "Li", "li")
    assert not await store.console_people.rename(99_999, "Zoe", "zoe")
    assert [each.name for each in await store.console_people.all()] == ["Li", "mika"]
    assert "password_hash" not in repr(lin)


async def test_if_all_owners_give_up_their_role_at_the_same_time_one_stays_owner(
    store: Store,
) -> None:
    owners = [await person(store, f"owner {number}") for number in range(3)]
    left: list[bool] = []

    async def leave(who: ConsolePerson, how: str) -> None:
        people = store.console_people
        left.append(
            await people.disable(who.person_id)
            if how == "disable"
            else await people.change_role(who.person_id, "viewer")
        )

    async with anyio.create_task_group() as tasks:
        for who, how in zip(owners, ("disable", "role", "disable"), strict=True):
            tasks.start_soon(leave, who, how)
    assert sorted(left) == [False, True, True]
    assert await store.console_people.first_owner() is not None


async def test_disabling_deletes_sessions_tokens_and_the_link(store: Store) -> None:
    await person(store, "first")
    lin = await person(store)
    await session(store, lin, HASH)
    await store.console_tokens.add(
        person_id=lin.person_id,
        token_hash=HASH,
        prefix="nekro_1",
        name="ci",
        scopes=frozenset({"*"}),
        created=NOW,
        expires=0,
    )
    await store.console_people.invite(lin.person_id, HASH, NOW + 60)
    assert await store.console_people.disable(lin.person_id)
    assert await store.console_people.enable(lin.person_id)
    assert await store.console_sessions.find(HASH, NOW) is None
    assert await store.console_tokens.find(HASH, NOW) is None
    assert await store.console_people.accept(HASH, "x", NOW) is None
    assert not await session(store, lin, "1" * 64)  # an invited person has no password yet


async def test_if_the_last_owner_cannot_be_disabled_the_sessions_stay(store: Store) -> None:
    lin = await person(store)
    await session(store, lin, HASH)
    assert not await store.console_people.disable(lin.person_id)
    assert await store.console_sessions.find(HASH, NOW) is not None


async def test_a_session_may_replace_another_and_the_sessions_of_a_person_are_limited(
    store: Store,
) -> None:
    lin = await person(store)
    await session(store, lin, HASH)
    for number in range(1, MOST_SESSIONS + 5):
        await session(
            store, lin, f"{number:064}", replaced=f"{number - 1:064}" if number < 3 else ""
        )
    assert await store.console_sessions.find(HASH, NOW) is None
    assert len(await store.console_sessions.of(lin.person_id, NOW)) == MOST_SESSIONS
    assert await store.console_sessions.of(lin.person_id, NOW + 61) == []


async def test_the_time_of_the_last_use_is_written_at_most_once_a_minute(
    store: Store, clock: Clock
) -> None:
    lin = await person(store)
    await session(store, lin, HASH)
    for later, stored in ((1.0, 0.0), (USED_EVERY_S - 1, 0.0)):
        await store.console_sessions.find(HASH, NOW + later)
        (shown,) = await store.console_sessions.of(lin.person_id, NOW)
        assert shown.last_used - NOW == stored
    await store.console_tokens.add(
        person_id=lin.person_id,
        token_hash=HASH,
        prefix="nekro_1",
        name="ci",
        scopes=frozenset({"turns:read", "rooms:act"}),
        created=NOW,
        expires=NOW + 1000,
    )
    found = await store.console_tokens.find(HASH, NOW + 500)
    assert found is not None
    assert found[0].scopes == {"turns:read", "rooms:act"}
    (token,) = await store.console_tokens.all()
    assert token.last_used == NOW + 500
    assert await store.console_tokens.find(HASH, NOW + 1000) is None


async def test_a_one_time_code_and_a_recovery_code_can_be_used_only_once(store: Store) -> None:
    lin = await person(store)
    people = store.console_people
    await people.begin_second_factor(lin.person_id, "first")
    await people.begin_second_factor(lin.person_id, "second")
    assert not await people.confirm_second_factor(lin.person_id, "first", 7, [HASH])
    assert await people.recovery_codes(lin.person_id) == 0
    assert await people.confirm_second_factor(lin.person_id, "second", 7, [HASH, "1" * 64])
    assert [await people.use_step(lin.person_id, step) for step in (7, 8, 8, 6, 9)] == [
        False,
        True,
        False,
        False,
        True,
    ]
    assert await people.use_recovery_code(lin.person_id, HASH)
    assert not await people.use_recovery_code(lin.person_id, HASH)
    assert await people.recovery_codes(lin.person_id) == 1
    await people.remove_second_factor(lin.person_id)
    current = await people.one(lin.person_id)
    assert current is not None
    assert (current.totp_secret, await people.recovery_codes(lin.person_id)) == ("", 0)
