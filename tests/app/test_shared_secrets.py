"""Processes that share a database have the same secrets, although each has its own data folder."""

from pathlib import Path

import anyio

from nekro_core.app.shared_secrets import SHARED, share_secrets
from nekro_core.store import Store
from nekro_core.system.secrets import kept_secret, secret_file


def secrets_of(data: Path) -> dict[str, str]:
    return {name: kept_secret(data, name) for name in SHARED}


async def test_the_second_process_takes_over_the_secrets_of_the_first(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    token = kept_secret(first, "web_access_token")
    kept_secret(second, "web_access_token")
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as store:
        await share_secrets(first, store.documents)
        await share_secrets(second, store.documents)
    assert kept_secret(first, "web_access_token") == token
    assert secrets_of(second) == secrets_of(first)
    assert secret_file(second, "links").stat().st_mode & 0o777 == 0o600


async def test_two_processes_that_start_at_once_agree(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second", "third")]
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as store:
        async with anyio.create_task_group() as tasks:
            for folder in folders:
                tasks.start_soon(share_secrets, folder, store.documents)
        assert secrets_of(folders[0]) == secrets_of(folders[1]) == secrets_of(folders[2])
        assert len(set(secrets_of(folders[0]).values())) == len(SHARED)
        earlier = await store.documents.with_secrets(("secrets/*",)).revisions("secrets/links")
        assert len(earlier) == 1
