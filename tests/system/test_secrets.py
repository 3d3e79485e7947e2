"""A secret is made only once. It is written as a whole, and only its owner can read it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nekro_core.store import Store, StoreUnavailable
from nekro_core.system.secrets import ComparedSecret, kept_secret, secret_file


def test_a_secret_is_made_once_and_read_afterwards(tmp_path: Path) -> None:
    made = kept_secret(tmp_path, "token")
    assert len(made) >= 40
    assert kept_secret(tmp_path, "token") == made
    assert kept_secret(tmp_path, "another") != made
    path = secret_file(tmp_path, "token")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert {each.name for each in path.parent.iterdir()} == {"token", "another"}


def test_concurrent_first_starts_get_the_same_secret(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: kept_secret(tmp_path, "token"), range(32)))) == 1


def test_an_empty_secret_file_is_an_error(tmp_path: Path) -> None:
    path = secret_file(tmp_path, "token")
    path.parent.mkdir()
    path.write_text("\n")
    with pytest.raises(RuntimeError, match="is empty: delete it"):
        kept_secret(tmp_path, "token")


async def test_the_error_about_a_bad_database_url_hides_its_password() -> None:
    with pytest.raises(StoreUnavailable) as error:
        async with Store.open("postgers://bot:hunter22@127.0.0.1/nekro"):
            pass
    assert "hunter22" not in str(error.value)
    assert "postgers://bot:***@127.0.0.1" in str(error.value)


def test_a_secret_is_compared_by_its_text() -> None:
    secret = ComparedSecret("right")
    for one, other in ((secret, "right"), ("right", secret), (secret, ComparedSecret("right"))):
        assert (one == other, one != other) == (True, False)
    for one, other in ((secret, "wrong"), ("wrong", secret), (secret, "right2"), (secret, 5)):
        assert (one == other, one != other) == (False, True)
    assert {"right": 1}[secret] == 1
    assert f"Bearer {secret}" == "Bearer right"
    assert secret != "\udcff"
