"""Which object store a process of a cluster opens, and what `nekro doctor` says about it."""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from nekro_core.app.cluster.link import cluster_settings
from nekro_core.app.cluster.object_place import agree_on_place
from nekro_core.app.cluster.shared_objects import check_place_of
from nekro_core.app.object_stores import check_objects, choose_objects
from nekro_core.app.settings import Settings
from nekro_core.app.settings_sources import SettingsError
from nekro_core.backup.errors import BackupRefused
from nekro_core.cluster.credentials import ClusterRole
from nekro_core.cluster.errors import ClusterMisconfigured
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.nats_objects import NatsObjects
from nekro_core.cluster.s3_objects import S3Objects
from nekro_core.store import Store, StoreSettings
from tests.peers.nats import NatsServer
from tests.peers.s3_servers import BUCKET, JuiceServer, missing

POSTGRES = "asyncpg://nekro:secret@127.0.0.1:9/nekro"


@pytest.fixture(scope="module")
def juice() -> Iterator[JuiceServer]:
    if lacks := missing(JuiceServer):
        pytest.skip(lacks)
    with JuiceServer() as server:
        yield server


def settings(nats_url: str, **more: Any) -> Settings:
    values = {"nekro_cluster_url": nats_url, "nekro_database_url": POSTGRES, **more}
    return Settings(_env_file=None, **values)  # type: ignore[call-arg]


def on_s3(nats_url: str, server: JuiceServer, folder: str) -> Settings:
    return settings(
        nats_url, nekro_cluster_objects=f"s3://{BUCKET}/{folder}", nekro_s3=server.settings()
    )


async def test_objects_are_in_nats_by_default(
    nats_server: NatsServer, connection: NatsConnection
) -> None:
    async with AsyncExitStack() as stack:
        found = await choose_objects(settings(nats_server.url), connection, stack, makes=True)
        assert isinstance(found, NatsObjects)


async def test_with_s3_nats_gets_no_object_store(
    nats_server: NatsServer, connection: NatsConnection, juice: JuiceServer
) -> None:
    async with AsyncExitStack() as stack:
        wanted = on_s3(nats_server.url, juice, "new")
        found = await choose_objects(wanted, connection, stack, makes=True)
        assert isinstance(found, S3Objects)
    assert await NatsObjects.find(connection, empty=True) is None


async def test_objects_that_are_in_nats_are_read_and_deleted_after_the_change_to_s3(
    nats_server: NatsServer, connection: NatsConnection, juice: JuiceServer, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"from before")
    in_nats = await NatsObjects.open(connection)
    await in_nats.put("boxes/a", source)
    async with AsyncExitStack() as stack:
        wanted = on_s3(nats_server.url, juice, "changed")
        found = await choose_objects(wanted, connection, stack, makes=True)
        await found.put("boxes/b", source)
        assert await found.names() == ["boxes/a", "boxes/b"]
        await found.fetch("boxes/a", target)
        assert target.read_bytes() == b"from before"
        assert await in_nats.names() == ["boxes/a"]
        assert await found.delete("boxes/a") is True
        assert await found.names() == ["boxes/b"]
    assert await in_nats.names() == []


async def test_doctor_tries_the_bucket(nats_server: NatsServer, juice: JuiceServer) -> None:
    found = await check_objects(on_s3(nats_server.url, juice, "doctor"))
    assert found is not None
    assert found.ok is True
    assert found.seen == (
        f"s3://{BUCKET}/doctor/ at {juice.endpoint} stores, reads, lists and deletes"
    )
    wrong = on_s3(nats_server.url, juice, "doctor").model_copy(
        update={"nekro_s3": juice.settings(secret_key="hidden")}
    )
    found = await check_objects(wrong)
    assert found is not None
    assert found.ok is False
    assert found.seen == f"s3://{BUCKET}/doctor"
    assert "check NEKRO_S3__SECRET_KEY" in found.remedy
    assert "hidden" not in found.remedy


async def test_doctor_looks_into_the_object_store_of_nats(
    nats_server: NatsServer, connection: NatsConnection, tmp_path: Path
) -> None:
    wanted = settings(nats_server.url)
    found = await check_objects(wanted)
    assert found is not None
    assert found.ok is None
    assert "the first gateway makes the store" in found.seen
    source = tmp_path / "source"
    source.write_bytes(b"x")
    await (await NatsObjects.open(connection)).put("media/a", source)
    found = await check_objects(wanted)
    assert found is not None
    assert (found.ok, found.seen) == (True, f"NATS at {nats_server.url} lists 1 objects")


async def test_doctor_says_nothing_about_objects_of_a_bot_without_a_cluster() -> None:
    assert await check_objects(Settings(_env_file=None)) is None  # type: ignore[call-arg]


def test_an_address_of_a_bucket_that_cannot_be_read_is_a_wrong_setting() -> None:
    with pytest.raises(SettingsError, match="NEKRO_CLUSTER_OBJECTS is 's3:/nekro'"):
        cluster_settings(
            settings("nats://127.0.0.1:9", nekro_cluster_objects="s3:/nekro"), ClusterRole.WORKER
        )


def test_a_bucket_without_the_library_of_s3_is_a_wrong_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Without:
        """Finds what another finder finds, except botocore."""

        def __init__(self, finder: Any) -> None:
            self._finder = finder

        def find_spec(self, name: str, *rest: Any) -> Any:
            return None if name == "botocore" else self._finder.find_spec(name, *rest)

    monkeypatch.delitem(sys.modules, "botocore", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Without(each) for each in sys.meta_path])
    with pytest.raises(SettingsError, match=r"pip install 'nekro-core\[cluster,s3\]'"):
        cluster_settings(
            settings("nats://127.0.0.1:9", nekro_cluster_objects="s3://nekro-objects"),
            ClusterRole.GATEWAY,
        )


async def test_a_process_that_names_another_place_for_objects_than_the_others_is_refused(
    tmp_path: Path,
) -> None:
    async with Store.open(f"sqlite://{tmp_path / 'nekro.sqlite3'}", StoreSettings()) as store:
        for place in ("nats", "nats", "s3://bot/", "s3://bot/"):  # from NATS to S3
            await agree_on_place(place, store.documents)
        for place in ("nats", "s3://bot/elsewhere/"):
            with pytest.raises(ClusterMisconfigured) as refused:
                await agree_on_place(place, store.documents)
            text = str(refused.value)
            assert (
                f"NEKRO_CLUSTER_OBJECTS is {place}, and the files of this bot are in s3://" in text
            )
        # After the SQL that the error names, the other place is accepted.
        connection = sqlite3.connect(tmp_path / "nekro.sqlite3")
        with closing(connection), connection:
            connection.execute(text.partition("in the database: ")[2])
        await agree_on_place("nats", store.documents)


async def test_no_backup_is_made_if_the_objects_are_elsewhere_than_the_settings_say(
    tmp_path: Path,
) -> None:
    in_nats = settings("nats://127.0.0.1:9")
    in_bucket = settings("nats://127.0.0.1:9", nekro_cluster_objects="s3://nekro-objects")
    async with Store.open(f"sqlite://{tmp_path / 'nekro.sqlite3'}", StoreSettings()) as store:
        for each in (in_nats, in_bucket):  # no process has stored a place yet
            await check_place_of(each, store.documents)
        await agree_on_place("nats", store.documents)
        for each in (in_nats, in_bucket):  # with a bucket, what is in NATS is read too
            await check_place_of(each, store.documents)
        await agree_on_place("s3://nekro-objects/", store.documents)
        await check_place_of(in_bucket, store.documents)
        with pytest.raises(BackupRefused, match="files of this bot are in s3://nekro-objects/"):
            await check_place_of(in_nats, store.documents)
