"""The operator's documents are stored in the database. Changes in files, on pages and by other
processes all reach the database. A bot with an empty folder gets all documents from the
database."""

import asyncio
import shutil
import sqlite3
import stat
import time
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from nekro_core.system.atomic_files import write_whole
from tests.cli.nekro import nekro_meanwhile
from tests.e2e.whole_bot import WholeBot, until, whole_bot
from tests.peers.postgres import PostgresServer

PLUGIN = '''
from pydantic import Field

from nekro_core.api.plugin import ConfigBase, ExtraField, NekroPlugin

plugin = NekroPlugin(
    name="Cup", module_name="cup", description="A cup.", version="1.0.0", author="ann",
    url="https://example.test",
)


@plugin.mount_config()
class CupConfig(ConfigBase):
    """The cup."""

    SIZE: int = Field(default=1, title="Size")
    KEY: str = Field(default="", json_schema_extra=ExtraField(is_secret=True).model_dump())
'''
SEEN_S = 2.5
"""A change of another process takes effect within this time, even on a busy machine."""
CUP = "plugin_data/ann.cup/config.yaml"


class Rows:
    """The table of the documents, as another process sees it."""

    def __init__(self, data: Path, url: str) -> None:
        self._file = data / "nekro.sqlite3"
        self._url = url.replace("asyncpg", "postgresql", 1)

    async def run(self, sql: str) -> list[tuple[Any, ...]]:
        if self._url:
            server = await asyncpg.connect(self._url)
            try:
                return [tuple(row) for row in await server.fetch(sql)]
            finally:
                await server.close()
        connection = sqlite3.connect(self._file, timeout=30)
        try:
            with connection:
                return connection.execute(sql).fetchall()
        finally:
            connection.close()

    async def newest(self, name: str) -> str:
        rows = await self.run(
            f"SELECT text FROM documents WHERE name = '{name}' ORDER BY number DESC LIMIT 1"
        )
        return str(rows[0][0]) if rows else ""

    async def write(self, name: str, text: str) -> None:
        """Write a revision, as another process does."""
        await self.run(
            "INSERT INTO documents (name, number, text, saved) SELECT "
            f"'{name}', COALESCE(MAX(number), 0) + 1, '{text}', 0 FROM documents "
            f"WHERE name = '{name}'"
        )


async def reached(rows: Rows, name: str, words: str) -> None:
    for _ in range(100):
        if words in await rows.newest(name):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name} has no {words!r}: {await rows.newest(name)!r}")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
async def url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return ""
    server: PostgresServer = request.getfixturevalue("postgres")
    return await server.empty_database()


async def operate(bot: WholeBot, operation: str, **parameters: Any) -> Any:
    area, name = operation.split(".")
    answer = await bot.web.post(f"/operator/{area}/{name}", json=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


async def test_documents_in_the_database_are_edited_everywhere_and_reach_a_bot_with_an_empty_folder(
    tmp_path: Path, url: str
) -> None:
    data = tmp_path / "one" / "data"
    (data / "plugins").mkdir(parents=True)
    (data / "plugins" / "cup.py").write_text(PLUGIN)
    (data / "settings.toml").write_text('# ours\n[agent]\npersona = "You are Mei."\n')
    place = {"NEKRO_DOCUMENTS": "database"} | ({"NEKRO_DATABASE_URL": url} if url else {})
    rows = Rows(data, url)
    async with whole_bot(tmp_path / "one", **place) as bot:
        # The files that existed at the first start are in the database.
        assert (await rows.newest("settings.toml")).startswith("# ours\n")
        await reached(rows, CUP, "SIZE: 1")

        # Somebody edits a file by hand. The bot would take over a file that is empty for a moment.
        group = bot.group()
        write_whole(data / "settings.toml", b'# ours\n[agent]\npersona = "You are Ann."\n')
        await bot.logged("changed settings are in force")
        await reached(rows, "settings.toml", "You are Ann.")
        await bot.ask(group)
        assert "You are Ann." in str(bot.prompts(group)[-1].messages)

        # A half-written file stays in the folder, and the last valid version stays in effect.
        write_whole(data / "settings.toml", b'[agent]\npersona = "You are')
        await bot.logged("settings.toml, line 2: not TOML")
        await bot.logged("until it is mended, other processes do not get it")
        assert "You are Ann." in await rows.newest("settings.toml")
        await bot.ask(group)
        assert "You are Ann." in str(bot.prompts(group)[-1].messages)

        # Another process changes the document.
        await rows.write("settings.toml", '[agent]\npersona = "You are Bo."\n')
        began = time.monotonic()
        await until(lambda: "You are Bo." in (data / "settings.toml").read_text())
        await until(lambda: bot.bot.log.count("changed settings are in force") == 2)
        assert time.monotonic() - began < SEEN_S
        (kept,) = (data / "conflicts").iterdir()
        assert kept.read_text().endswith("You are"), "the half-written text must be kept in a file"
        await rows.write("conduct.toml", '[chats."onebot_v11-group_40001"]\npersona = "Cy."\n')
        await until((data / "conduct.toml").exists)
        for _ in range(50):
            await bot.ask(group)
            if "Cy." in str(bot.prompts(group)[-1].messages):
                break
        else:
            raise AssertionError("the policy of the other process is not in force")

        # Pages and commands change documents.
        await operate(bot, "personas.save", persona="ねこ", text="You are a cat.")
        assert "You are a cat." in await rows.newest("personas/ねこ.json")
        form = (await bot.web.get("/operator/plugins/form", params={"plugin": "ann.cup"})).json()
        await operate(
            bot,
            "plugins.configure",
            plugin="ann.cup",
            values={"SIZE": 3, "KEY": "sk-1234567890"},
            expected=form["result"]["revision"],
        )
        assert "SIZE: 3" in await rows.newest(CUP)
        await rows.write(CUP, "SIZE: 5\nKEY: sk-1234567890\n")
        await until(lambda: "SIZE: 5" in (data / CUP).read_text())
        assert stat.S_IMODE((data / CUP).stat().st_mode) == 0o600
        earlier = await rows.run(f"SELECT COUNT(*) FROM documents WHERE name = '{CUP}'")
        assert earlier[0][0] == 2, "the bot must not keep earlier versions of a document with a key"

        set_here = await nekro_meanwhile(tmp_path / "one", "set", "agent.language", "ja")
        assert set_here.status == 0, set_here.err
        await reached(rows, "settings.toml", 'language = "ja"')

    # A bot with an empty folder gets all documents.
    other = tmp_path / "other" / "data"
    other.mkdir(parents=True)
    (other / "plugins").mkdir()
    (other / "plugins" / "cup.py").write_text(PLUGIN)
    if not url:
        for each in data.glob("nekro.sqlite3*"):
            shutil.copy(each, other / each.name)
    async with whole_bot(tmp_path / "other", **place) as bot:
        for name in ("settings.toml", "conduct.toml", "personas/ねこ.json", CUP):
            assert (other / name).read_bytes() == (data / name).read_bytes(), name
        # This skips the number of the first group. That group already has messages with the ids
        # that the peer uses again.
        bot.group()
        group = bot.group()
        await bot.ask(group)
        assert "You are Bo." in str(bot.prompts(group)[-1].messages)


@pytest.mark.slow
async def test_documents_move_to_the_database_and_back(tmp_path: Path, url: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "settings.toml").write_text("# mine\n")
    (data / "secrets.toml").write_text('# mine\n[llm]\napi_key = "sk-1234567890"\n')
    (tmp_path / ".env").write_text(f"NEKRO_DATABASE_URL={url}\n")
    rows = Rows(data, url)

    async def documents(*words: str) -> str:
        ended = await nekro_meanwhile(tmp_path, "documents", *words)
        return ended.out if ended.status == 0 else ended.err

    assert "settings.toml: a file alone" in await documents("list")
    said = await documents("copy", "--to", "database")
    assert "2 documents were copied to the database" in said
    assert "set NEKRO_DOCUMENTS=database" in said
    assert "sk-1234567890" in await rows.newest("secrets.toml")
    assert "settings.toml: the same in both" in await documents("list")
    (data / "settings.toml").write_text("# another\n")
    assert "settings.toml: different" in await documents("list")
    said = await documents("copy", "--to", "database")
    assert "not the same in the data folder and in the database" in said
    assert "settings.toml" in said
    assert "sk-" not in said
    assert await rows.newest("settings.toml") == "# mine\n"
    assert "1 documents were copied" in await documents("copy", "--to", "files", "--overwrite")
    assert (data / "settings.toml").read_text() == "# mine\n"
    (data / "secrets.toml").unlink()
    await documents("copy", "--to", "files")
    assert "sk-1234567890" in (data / "secrets.toml").read_text()
    assert stat.S_IMODE((data / "secrets.toml").stat().st_mode) == 0o600


async def test_a_start_is_refused_if_the_database_and_the_folder_have_different_documents(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "settings.toml").write_text("# mine\n")
    (tmp_path / ".env").write_text("PORT=0\n")
    copied = await nekro_meanwhile(tmp_path, "documents", "copy", "--to", "database")
    assert copied.status == 0, copied.err
    (data / "documents.json").unlink()
    (data / "settings.toml").write_text("# another\n")
    (tmp_path / ".env").write_text("PORT=0\nNEKRO_DOCUMENTS=database\n")
    refused = await nekro_meanwhile(tmp_path, "run")
    assert refused.status == 1
    assert "nekro documents copy --to files --overwrite" in refused.err
    assert (data / "settings.toml").read_text() == "# another\n"
