"""An operator bans people. The bot then ignores these people on the whole platform."""

from pathlib import Path

import pytest

from nekro_core.policy import InvalidOverride, PolicyFile
from nekro_core.policy.ban_list import BanList, BannedPerson
from nekro_core.system.documents import FileDocuments


async def test_a_ban_is_an_override_and_other_entries_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "conduct.toml"
    path.write_text('# mine\n[people."onebot_v11:10001"]\nquota = { turns = 3 }\n')
    overrides = PolicyFile(FileDocuments(tmp_path))
    await overrides.look()
    bans = BanList(overrides)
    assert await bans.ban("onebot_v11", "10001")
    assert await bans.ban("telegram", "7")
    assert not await bans.ban("telegram", "7")
    assert bans.listed() == (
        BannedPerson(place="onebot_v11", user_id="10001"),
        BannedPerson(place="telegram", user_id="7"),
    )
    assert overrides.person("onebot_v11", "onebot_v11", "10001").ignored

    assert await bans.unban("onebot_v11", "10001")
    assert not await bans.unban("onebot_v11", "10001")
    person = overrides.person("onebot_v11", "onebot_v11", "10001")
    assert (person.ignored, person.quota.turns) == (False, 3)
    assert path.read_text().startswith("# mine")


async def test_an_invalid_ban_is_refused(tmp_path: Path) -> None:
    bans = BanList(PolicyFile(FileDocuments(tmp_path)))
    for place, user in (("", "1"), ("a:b", "1"), ("telegram", " ")):
        with pytest.raises(InvalidOverride, match="expected an adapter"):
            await bans.ban(place, user)
    assert bans.listed() == ()
