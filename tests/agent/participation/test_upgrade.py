"""If a bot was used before the setting ``participation`` existed, it answers only those who mention
it, and the operator is told."""

import sqlite3
from contextlib import closing
from pathlib import Path

from loguru import logger

from nekro_core.agent.participation.upgrade import keep_participation
from nekro_core.policy import PolicyFile
from nekro_core.policy.participation import Participation
from nekro_core.store import Store
from nekro_core.system.documents import FileDocuments

OLD = "0017_participation"
UNDONE = (
    "DROP TABLE upgrade_notes",
    "DROP INDEX turns_chat_times",
    "CREATE INDEX turns_chat_id ON turns (chat_key, id)",
    "DROP TABLE partition_owners",
    "DROP TABLE media_files",
    "DROP TABLE box_files",
    "DROP TABLE item_takes",
    "DROP TABLE commit_marks",
    "DROP TABLE shared_plugins",
    "DROP TABLE plugin_reports",
)
"""Undoes the migration `OLD` and all later ones."""


async def used_before(folder: Path, *, chats: int = 1) -> None:
    """Make a database with this number of chats, as the previous version left it."""
    async with Store.open(f"sqlite://{folder / 'nekro.sqlite3'}"):
        pass
    with closing(sqlite3.connect(folder / "nekro.sqlite3")) as database, database:
        for statement in UNDONE:
            database.execute(statement)
        database.execute("DELETE FROM tortoise_migrations WHERE name >= ?", (OLD,))
        for number in range(chats):
            database.execute(
                "INSERT INTO chats (chat_key, instance, first_seen, handled_seq) "
                "VALUES (?, 'fake', 0, 0)",
                (f"fake-group_{number}",),
            )


async def start(folder: Path) -> tuple[Participation | None, list[str]]:
    """Start a bot. Return the participation mode in conduct.toml, and the warnings in the log."""
    told: list[str] = []
    handle = logger.add(lambda line: told.append(line.record["message"]), level="WARNING")
    try:
        async with Store.open(f"sqlite://{folder / 'nekro.sqlite3'}") as store:
            conduct = PolicyFile(FileDocuments(folder))
            await conduct.look()
            await keep_participation(store, conduct)
            return conduct.book.bot.participation, told
    finally:
        logger.remove(handle)


async def test_an_upgraded_bot_answers_as_before_and_tells_the_operator_once(
    tmp_path: Path,
) -> None:
    await used_before(tmp_path)
    mode, told = await start(tmp_path)
    assert mode is Participation.MENTIONED
    assert "/participation follows" in "".join(told)
    mode, told = await start(tmp_path)
    assert (mode, told) == (Participation.MENTIONED, []), "the second start tells nothing"
    (tmp_path / "conduct.toml").unlink()
    assert await start(tmp_path) == (None, []), (
        "the file that the operator deleted is not written again"
    )


async def test_a_new_bot_has_the_default_mode(tmp_path: Path) -> None:
    assert await start(tmp_path) == (None, [])
    await used_before(tmp_path, chats=0)
    assert await start(tmp_path) == (None, []), (
        "a bot that was started but never used counts as new"
    )


async def test_a_mode_that_the_operator_has_chosen_is_kept(tmp_path: Path) -> None:
    await used_before(tmp_path)
    (tmp_path / "conduct.toml").write_text('[bot]\nparticipation = "lively"\n')
    assert await start(tmp_path) == (Participation.LIVELY, [])
