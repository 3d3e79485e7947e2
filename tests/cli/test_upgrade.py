"""``nekro upgrade`` refuses to begin if it lacks a program that it would need later."""

from pathlib import Path

import pytest

from tests.cli.nekro import nekro

ROOT = Path(__file__).parents[2]


def test_without_pg_dump_nothing_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("NEKRO_DATABASE_URL", "asyncpg://nekro@127.0.0.1:1/nekro")
    ended = nekro(tmp_path, "upgrade", str(ROOT))
    assert ended.status == 1
    assert "pg_dump is not installed here" in ended.err
    assert not (tmp_path / "versions").exists()
