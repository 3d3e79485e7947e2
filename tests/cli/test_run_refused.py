"""A start that fails prints the reason and the remedy, without a traceback."""

import os
import socket
import sqlite3
from contextvars import Context
from pathlib import Path

import pytest

from nekro_core.app.instance import PortTaken, bind_listener
from nekro_core.app.settings import Settings
from nekro_core.cli import main
from nekro_core.store import DataFolderLock, Store
from tests.cli.nekro import Ended, nekro

pytestmark = pytest.mark.long

MODEL = {"NEKRO_LLM__BASE_URL": "http://127.0.0.1:9/v1", "NEKRO_LLM__MODEL": "m"}
"""The settings name an endpoint, so no start looks for the weights of the embedded model."""


def words(ended: Ended) -> str:
    """Check that a start was refused. Return its stderr."""
    assert ended.status == 1, ended.err
    assert "Traceback" not in ended.out + ended.err
    assert ended.err.startswith("nekro-core cannot start: ")
    return ended.err


def run_here(capsys: pytest.CaptureFixture[str]) -> str:
    """Run `nekro run` in this process. Use it only for a start that fails before logging is set up:
    a start that fails later would leave the log of this process changed."""
    # `main` runs in a new context, because the test's own context holds a running event loop.
    umask = os.umask(0o022)
    try:
        status = Context().run(main, ["run"])
    finally:
        os.umask(umask)
    said = capsys.readouterr()
    return words(Ended(status, said.out, said.err))


def test_a_port_in_use_stops_the_start(folder: Path, write_env, capsys) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        write_env(**MODEL | {"PORT": str(port)})
        said = run_here(capsys)
    assert f"annot listen on 127.0.0.1 port {port}: another program holds it" in said
    assert "set PORT in .env" in said
    assert not (folder / "data").exists(), "a refused start must not make the data folder"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"NEKRO_TRIGER__DEBOUNCE_S": "1"}, "NEKRO_TRIGER__DEBOUNCE_S: did you mean NEKRO_TRIGGER"),
        ({"LOG_LEVEL": "LOUD"}, "LOG_LEVEL is 'LOUD', expected a number or one of TRACE, DEBUG"),
        ({"PORT": "many"}, "PORT: Input should be a valid integer"),
        ({"HOST": "192.0.2.1"}, "192.0.2.1 port 0: that is no address of this machine"),
    ],
)
def test_invalid_settings_stop_the_start(
    folder: Path, write_env, capsys, settings: dict[str, str], says: str
) -> None:
    write_env(**MODEL | settings)
    assert says in run_here(capsys)
    assert not (folder / "data").exists()


async def test_a_folder_in_use_or_a_newer_database_stops_the_start(folder: Path, write_env) -> None:
    write_env(**MODEL)
    settings = Settings.load(folder)
    with DataFolderLock(folder / "data"):
        said = words(nekro(folder, "run"))
    assert "the data folder" in said
    assert "in use by process" in said
    assert "NEKRO_DATA_DIR" in said

    async with Store.open(settings.database_url, settings.nekro_store):
        pass
    database = sqlite3.connect(folder / "data" / "nekro.sqlite3")
    with database:
        database.execute(
            "INSERT INTO tortoise_migrations (app, name, applied_at) VALUES ('store', '9999_x', '')"
        )
    database.close()
    before = (folder / "data" / "nekro.sqlite3").read_bytes()
    said = words(nekro(folder, "run"))
    assert "was written by a newer version: it has 9999_x" in said
    assert "Install the newer version again" in said
    assert (folder / "data" / "nekro.sqlite3").read_bytes() == before


def test_a_data_folder_that_is_a_file_stops_the_start(folder: Path, write_env) -> None:
    (folder / "file").write_text("")
    write_env(**MODEL | {"NEKRO_DATA_DIR": "file"})
    said = words(nekro(folder, "run"))
    assert "file" in said
    assert "Is NEKRO_DATA_DIR a folder that this user may write to" in said


def test_a_port_in_use_is_reported_before_weights_are_downloaded(
    folder: Path, write_env, capsys
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        write_env(PORT=str(other.getsockname()[1]), NEKRO_EMBEDDED__DOWNLOAD="false")
        assert "another program holds it" in run_here(capsys)


def test_a_port_cannot_be_bound_until_the_socket_that_listens_there_is_closed() -> None:
    with bind_listener("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(PortTaken, match="another program holds it"):
            bind_listener("127.0.0.1", port)
    bind_listener("127.0.0.1", port).close()  # the port is free again at once
