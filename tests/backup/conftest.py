"""Makes a data folder with a database and files, like the folder of a bot that has ended."""

from pathlib import Path

import pytest

from nekro_core.app.settings import Settings
from nekro_core.backup.make import BackupSource
from nekro_core.chat import Image, Media, Text
from nekro_core.store import Store
from tests.store.conftest import GROUP, say

PASSPHRASE = "correct horse battery"
CONDUCT = b'[chats."onebot_v11-group_30003"]\nstate = "observe"\n'
CONFIG = b"city: Delft\napi_key: k-1234567890\n"
PICTURE = bytes(range(256)) * 40


@pytest.fixture
def settings() -> Settings:
    return Settings(_env_file=None)  # type: ignore[call-arg]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    write(folder / "conduct.toml", CONDUCT)
    write(folder / "plugins.json", b"{}")
    write(folder / "plugins" / "weather.py", b"# a plugin\n")
    write(folder / "plugins" / "tool.sh", b"#!/bin/sh\n", 0o700)
    write(folder / "plugin_data" / "ann.weather" / "config.yaml", CONFIG)
    write(folder / "plugin_data" / "ann.weather" / "cache.bin", b"\0\1\2")
    write(folder / "uploads" / GROUP.file_name / ("a" * 32 + ".png"), PICTURE)
    write(folder / "boxes" / GROUP.file_name / "default.tar", b"files of a box")
    write(folder / "secrets" / "web_access_token", b"the-token-of-the-page")
    write(folder / "secrets" / "erased", b"the-secret-of-the-marks")
    write(folder / "models" / "large.gguf", b"weights")
    write(folder / "logs" / "bot.log", b"a line")
    write(folder / "running.json", b"{}")
    return folder


def write(path: Path, content: bytes, mode: int = 0o600) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def source_of(data: Path, *settings: Path) -> BackupSource:
    return BackupSource(data=data, database_url=url_of(data), settings=settings)


def url_of(data: Path) -> str:
    return f"sqlite://{data / 'nekro.sqlite3'}"


async def talk(data: Path, *texts: str) -> None:
    """Store messages in the database of a data folder, and then a message with a picture."""
    async with Store.open(url_of(data)) as store:
        for text in texts:
            await say(store, text)
        path = data.absolute() / "uploads" / GROUP.file_name / ("a" * 32 + ".png")
        picture = Image(media=Media(path=str(path), name="a.png", mime="image/png", size=10))
        await say(store, segments=(Text("look"), picture))


async def texts_in(data: Path) -> list[str]:
    async with Store.open(url_of(data)) as store:
        return [
            segment.text
            for record in await store.messages.newest(GROUP, 100_000)
            for segment in record.segments
            if isinstance(segment, Text)
        ]


def snapshot(folder: Path) -> dict[str, bytes]:
    """All files below a folder, with their contents."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
