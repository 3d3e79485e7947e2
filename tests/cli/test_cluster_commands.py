"""`nekro gateway` and `nekro worker` refuse wrong settings, and say what to set instead."""

import os
from contextvars import Context
from pathlib import Path

import pytest

from nekro_core.cli import main
from tests.cli.nekro import nekro

NATS = {"NEKRO_CLUSTER_URL": "nats://127.0.0.1:9"}
DATABASE = {"NEKRO_DATABASE_URL": "asyncpg://nekro:wrong-password@127.0.0.1:9/nekro"}


@pytest.mark.parametrize("role", ["gateway", "worker"])
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (DATABASE, "NEKRO_CLUSTER_URL is not set: `nekro {role}` needs the address of the cluster"),
        (NATS, "NEKRO_DATABASE_URL names no PostgreSQL database (came: nothing)"),
        (NATS | {"NEKRO_DATABASE_URL": "sqlite:///x.sqlite3"}, "PostgreSQL database (came: sqlite"),
        (
            DATABASE | {"NEKRO_CLUSTER_URL": "nats://nats.example.org"},
            "its URL has no user and password",
        ),
        (
            DATABASE | {"NEKRO_CLUSTER_URL": "nats://bot:hidden@nats.example.org"},
            "write tls:// instead",
        ),
        (DATABASE | {"NEKRO_CLUSTER_URL": "http://127.0.0.1"}, "expected nats://HOST:PORT"),
        (NATS | DATABASE | {"NEKRO_NODE": "a worker"}, "NEKRO_NODE: String should match pattern"),
        (NATS | DATABASE | {"NEKRO_CLUSTER_PARTITIONS": "0"}, "greater than or equal to 1"),
    ],
)
def test_wrong_settings_are_refused(
    folder: Path, write_env, capsys, role: str, settings: dict[str, str], says: str
) -> None:
    write_env(**settings)
    umask = os.umask(0o022)
    try:
        # `main` runs in a new context, because the test's own context holds a running event loop.
        status = Context().run(main, [role])
    finally:
        os.umask(umask)
    said = capsys.readouterr().err
    assert status == 2, said
    assert said.startswith("nekro-core cannot start: ")
    assert says.format(role=role) in said
    assert "hidden" not in said
    assert not (folder / "data").exists(), "a refused start must not make the data folder"


@pytest.mark.long
def test_a_database_that_is_away_is_named(folder: Path, write_env) -> None:
    write_env(**NATS, **DATABASE)
    ended = nekro(folder, "worker")
    assert ended.status == 1
    assert "NEKRO_DATABASE_URL" in ended.err
    assert "wrong-password" not in ended.err
    assert "Traceback" not in ended.err
