"""The adapter's settings, and the checkpoint file, which stores how far an account has read."""

import json
from pathlib import Path
from typing import Any

import pytest

from adapters.matrix.checkpoint import SyncCheckpoint
from adapters.matrix.settings import read_config

BOT = {"homeserver": "https://matrix.example.org", "access_token": "syt_secret"}


def test_accounts_may_be_json_text_or_decoded(tmp_path: Path) -> None:
    for written in (json.dumps([BOT]), [BOT]):
        config = read_config({"matrix_bots": written, "matrix_proxy": ""}, tmp_path)
        assert config.matrix_bots[0].access_token == "syt_secret"
        assert not config.matrix_bots[0].auto_accept_invites
        assert config.matrix_token_store_path is None, "a token that does not change is not stored"
    renewing = [BOT | {"refresh_token": "syr_secret"}]
    config = read_config({"matrix_bots": renewing}, tmp_path)
    assert config.matrix_token_store_path == str(tmp_path / "tokens.json")


def test_the_adapter_starts_without_accounts_because_one_can_be_added_while_the_bot_runs(
    tmp_path: Path,
) -> None:
    for written in (None, []):
        assert read_config({"matrix_bots": written}, tmp_path).matrix_bots == []


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("[{", "expected JSON"),
        ([{"access_token": "syt_secret"}], "HOMESERVER"),
        ([BOT | {"homeserver": "matrix.example.org"}], "https://"),
        ([BOT | {"auto_accept_invites": "syt_secret"}], "AUTO_ACCEPT_INVITES"),
    ],
)
def test_an_invalid_setting_is_named_without_its_secret(
    tmp_path: Path, written: Any, words: str
) -> None:
    with pytest.raises(ValueError, match=r"MATRIX_BOTS") as error:
        read_config({"matrix_bots": written}, tmp_path)
    assert words in str(error.value)
    assert "syt_secret" not in str(error.value)


async def test_the_checkpoint_passes_a_message_only_when_all_earlier_messages_are_stored(
    tmp_path: Path,
) -> None:
    async def done() -> None: ...

    async def fails() -> None:
        raise OSError("disk full")

    path = tmp_path / "matrix" / "bot.json"
    bookmark = SyncCheckpoint(path)
    first, second = bookmark.page("s1"), bookmark.page("s2")
    slow, quick = first.job(done), second.job(done)
    first.closed()
    second.closed()
    await quick()
    await bookmark.keep()
    assert bookmark.token == "", "messages of an earlier page are not stored yet"
    await slow()
    await bookmark.keep()
    assert bookmark.token == "s2"

    third = bookmark.page("s3")
    bad = third.job(fails)
    third.closed()
    with pytest.raises(OSError, match="disk full"):
        await bad()
    assert bookmark.broken.is_set()
    await bookmark.keep()
    again = SyncCheckpoint(path)
    again.load()
    assert again.token == "s2"
    await again.forget()
    assert not path.exists()


def test_an_unreadable_checkpoint_file_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "bot.json"
    for text in ("", "{", "[]", '{"since": 7}'):
        path.write_text(text)
        bookmark = SyncCheckpoint(path)
        bookmark.load()
        assert bookmark.token == ""
