"""Makes a folder for an operator. Commands read their settings only from this folder."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory. Environment variables of this machine that are settings of the bot are
    removed."""
    for name in os.environ:
        if name.lower().startswith(("nekro_", "onebot_", "web_")) or name in {"HOST", "PORT"}:
            monkeypatch.delenv(name)
    monkeypatch.delenv("ENVIRONMENT", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("PORT=0\n")
    return tmp_path


@pytest.fixture
def write_env(folder: Path):
    """Write lines into ``.env``."""

    def write(**settings: str) -> None:
        lines = [f"{name}={value}\n" for name, value in {"PORT": "0", **settings}.items()]
        (folder / ".env").write_text("".join(lines))

    return write
