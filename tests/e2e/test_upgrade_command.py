"""``nekro upgrade`` lets a running bot continue as another version. If the other version does not
work, the command goes back to the old one.

The other versions are wheels that are built from this checkout, with one more migration. One
version works, the migration of another fails, and two do not answer after their migration.
"""

import asyncio
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import time
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.bot_process import ROOT
from tests.e2e.whole_bot import WELL, WholeBot, until, whole_bot
from tests.peers.ports import free_port
from tests.peers.postgres import PostgresServer

pytestmark = [pytest.mark.jail, pytest.mark.long]

NEXT = "9999_of_the_test"
"""The name of the additional migration. It comes after the names of all other migrations."""
BACK_S = 10.0
MIGRATION = """
from tortoise import migrations
from tortoise.migrations import operations as ops


class Migration(migrations.Migration):
    dependencies = [("store", "{before}")]
    initial = False
    operations = [ops.RunSQL("{sql}")]
"""
WORKS = "CREATE TABLE of_the_test (a INTEGER)"
FAILS = "INSERT INTO no_such_table VALUES (1)"
NEEDED = {"PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PYTHONPATH": "/of/the/old/version"}
"""These variables let ``nekro upgrade`` install only the wheel into the new environment. The new
version must not inherit PYTHONPATH."""
DEPENDENCIES = "dependencies_of_the_tests.pth"
"""A file of the wheel that names the folder of packages of the tests' environment. So the new
environment imports the dependencies from there. That folder's own .pth file names the checkout;
Python reads such files only in its own folder of packages, so it does not import the bot from the
checkout."""


def newest() -> str:
    return max(each.stem for each in (ROOT / "nekro_core/store/migrations").glob("[0-9]*.py"))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of version 0.1.1, which has one migration more than this checkout."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("nekro_core", "adapters", "plugins"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tree / name)
    replace_once(tree / "pyproject.toml", 'version = "0.1.0"', 'version = "0.1.1"')
    replace_once(tree / "nekro_core/__init__.py", '"0.1.0"', '"0.1.1"')
    migration = tree / f"nekro_core/store/migrations/{NEXT}.py"
    migration.write_text(MIGRATION.format(before=newest(), sql=WORKS))
    made = tmp_path_factory.mktemp("wheels")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "wheel"]
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(made), str(tree)]
    subprocess.run([*pip, *options], check=True, capture_output=True)
    (wheel,) = made.glob("*.whl")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(DEPENDENCIES, sysconfig.get_path("purelib"))
    return wheel


def replace_once(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), "utf-8")


def changed(good: Path, folder: Path, name: str, old: str, new: str) -> Path:
    """Make a copy of the wheel, with ``new`` instead of ``old`` in the file ``name``, and return
    its path."""
    folder.mkdir()
    wheel = folder / good.name
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(wheel, "w") as target:
        for each in source.infolist():
            content = source.read(each)
            if each.filename == name:
                assert content.count(old.encode()) == 1
                content = content.replace(old.encode(), new.encode())
            target.writestr(each, content)
    return wheel


async def upgraded(
    folder: Path, wheel: Path, *options: str, database_url: str = ""
) -> tuple[int, str]:
    """Run ``nekro upgrade`` in the folder of the bot. Return its exit status and its output."""
    environment = {**os.environ, **NEEDED}
    if database_url:
        environment["NEKRO_DATABASE_URL"] = database_url
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "nekro_core", "upgrade", str(wheel), *options),
        cwd=folder,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


def applied(data: Path) -> str:
    """Return the name of the newest migration that the database has."""
    with closing(sqlite3.connect(data / "nekro.sqlite3")) as database:
        query = "SELECT MAX(name) FROM tortoise_migrations WHERE app = 'store'"
        return str(database.execute(query).fetchone()[0])


def running(bot: WholeBot) -> dict[str, object]:
    found: dict[str, object] = json.loads((bot.bot.data / "running.json").read_text())
    return found


def seconds_back(said: str) -> float:
    found = re.search(r"the version before answers again, ([\d.]+) s after", said)
    assert found is not None, said
    return float(found[1])


@pytest.mark.slow
async def test_the_bot_continues_as_a_version_that_works(tmp_path: Path, good: Path) -> None:
    async with whole_bot(tmp_path, PORT=str(free_port()), **NEEDED) as bot:
        group, pid = bot.group(), running(bot)["pid"]
        assert await bot.ask(group, "the bird is a heron") == [WELL]
        status, said = await upgraded(tmp_path, good, "--within", "240")
        assert status == 0, said
        assert f"the tables are those of {NEXT}" in said
        assert "nekro-core 0.1.1 answers" in said
        current = tmp_path / "versions/current"
        assert f"{current}/bin/nekro run" in said
        assert applied(bot.bot.data) == NEXT
        child = Path(f"/proc/{running(bot)['pid']}")
        assert child.stat().st_uid == os.getuid()
        assert str(current.resolve()) in (child / "cmdline").read_text()
        assert b"PYTHONPATH=" not in (child / "environ").read_bytes()
        assert f"PPid:\t{pid}\n" in (child / "status").read_text(), (
            "a service manager sees the same"
        )
        await bot.peer.wait_connected()
        assert await bot.ask(group, "which bird?") == [WELL]
        assert "heron" in str(bot.prompts(group)[-1].messages)
        assert not (bot.bot.data / "nekro.sqlite3-before-upgrade").exists()
        # The new version runs as a child of the process that was started first. If that process is
        # ended, the bot ends.
        await bot.bot.stop()
        assert bot.bot.process is not None
        assert bot.bot.process.returncode == 0
        assert not child.exists()


async def test_a_failing_migration_is_found_on_a_copy_and_the_bot_notices_nothing(
    tmp_path: Path, good: Path
) -> None:
    wheel = changed(
        good, tmp_path / "wheel", f"nekro_core/store/migrations/{NEXT}.py", WORKS, FAILS
    )
    async with whole_bot(tmp_path, PORT=str(free_port()), **NEEDED) as bot:
        group, before = bot.group(), running(bot)
        assert await bot.ask(group) == [WELL]
        status, said = await upgraded(tmp_path, wheel)
        assert status == 1
        assert "the new version cannot use a copy of the database" in said
        assert "no_such_table" in said
        assert running(bot) == before, "the bot was not restarted"
        assert applied(bot.bot.data) == newest()
        assert not (tmp_path / "versions/current").exists()
        assert [*bot.bot.data.glob(".upgrade-*")] == []
        assert await bot.ask(group) == [WELL]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "options", "reason"),
    [
        ('raise OSError("broken")', (), "it ended with status 1 before it answered"),
        ("await anyio.sleep_forever()", ("--within", "20"), "it did not answer within 20 s"),
    ],
    ids=["ends", "is silent"],
)
async def test_if_a_version_does_not_come_up_the_old_one_is_back_with_its_database(
    tmp_path: Path, good: Path, fault: str, options: tuple[str, ...], reason: str
) -> None:
    wheel = changed(
        good,
        tmp_path / "wheel",
        "nekro_core/app/server.py",
        "        await app.start()\n",
        f"        {fault}\n",
    )
    async with whole_bot(tmp_path, PORT=str(free_port()), **NEEDED) as bot:
        group, pid = bot.group(), running(bot)["pid"]
        assert await bot.ask(group, "the bird is a heron") == [WELL]
        status, said = await upgraded(tmp_path, wheel, *options)
        assert status == 1, said
        assert f"did not come up: {reason}" in said
        # On a machine that is busy with other tests, the first start was slow too. So the limit
        # grows with the time of that start.
        assert seconds_back(said) < max(BACK_S, 4 + 2 * bot.bot.started_in)
        assert running(bot)["pid"] == pid, "the same process runs the old version"
        data = bot.bot.data
        assert applied(data) == newest()
        (aside,) = (data / "copies").glob("*-of-failed-upgrade.sqlite3")
        with closing(sqlite3.connect(aside)) as database:
            assert database.execute("SELECT COUNT(*) FROM of_the_test").fetchone() == (0,)
        assert [*(data / "copies").glob("*-before-*")] == [], "it is the database in use"
        assert not (tmp_path / "versions/current").exists()
        await bot.peer.wait_connected()
        assert await bot.ask(group, "which bird?") == [WELL]
        assert "heron" in str(bot.prompts(group)[-1].messages)


@pytest.mark.slow
async def test_a_version_that_is_killed_in_the_middle_of_its_start_leaves_nothing_behind(
    tmp_path: Path, good: Path
) -> None:
    async with whole_bot(tmp_path, PORT=str(free_port()), **NEEDED) as bot:
        group = bot.group()
        assert await bot.ask(group, "the bird is a heron") == [WELL]
        status, said = await upgraded(tmp_path, good, "--within", "0.7")
        assert status == 1, said
        assert "did not come up: it did not answer within 0.7 s" in said
        assert seconds_back(said) < max(BACK_S, 4 + 2 * bot.bot.started_in)
        assert applied(bot.bot.data) == newest()
        await bot.peer.wait_connected()
        assert await bot.ask(group, "which bird?") == [WELL]
        assert "heron" in str(bot.prompts(group)[-1].messages)


@pytest.mark.slow
async def test_if_no_bot_runs_an_upgrade_only_switches_the_link_that_the_next_start_uses(
    tmp_path: Path, good: Path
) -> None:
    status, said = await upgraded(tmp_path, good)
    assert status == 0, said
    assert "no bot runs" in said
    version = subprocess.run(
        [tmp_path / "versions/current/bin/nekro", "--version"],
        env={**os.environ, **NEEDED},
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert version.stdout == "nekro-core 0.1.1\n"


@pytest.mark.slow
async def test_on_a_database_server_tables_are_migrated_on_a_copy_first_and_restored_after_a_fault(
    tmp_path: Path, good: Path, postgres: PostgresServer
) -> None:
    wheel = changed(
        good,
        tmp_path / "wheel",
        "nekro_core/app/server.py",
        "        await app.start()\n",
        '        raise OSError("broken")\n',
    )
    url = await postgres.empty_database()
    settings = {"PORT": str(free_port()), "NEKRO_DATABASE_URL": url, **NEEDED}
    async with whole_bot(tmp_path, **settings) as bot:
        group = bot.group()
        assert await bot.ask(group, "the bird is a heron") == [WELL]
        status, said = await upgraded(tmp_path, wheel, database_url=url)
        assert status == 1, said
        assert f"the tables are those of {NEXT}" in said
        assert "it ended with status 1" in said
        assert "server-of-failed-upgrade.dump" in said
        await bot.peer.wait_connected()
        assert await bot.ask(group, "which bird?") == [WELL]
        assert "heron" in str(bot.prompts(group)[-1].messages)


@pytest.mark.slow
async def test_a_bot_that_is_ended_while_a_version_is_tried_gets_its_old_database_back(
    tmp_path: Path, good: Path
) -> None:
    wheel = changed(
        good,
        tmp_path / "wheel",
        "nekro_core/app/server.py",
        "        await app.start()\n",
        "        await anyio.sleep_forever()\n",
    )
    async with whole_bot(tmp_path, PORT=str(free_port()), **NEEDED) as bot:
        group = bot.group()
        assert await bot.ask(group) == [WELL]
        command = asyncio.create_task(upgraded(tmp_path, wheel))
        await until((bot.bot.data / "upgrade.json").exists, 120)
        await until(lambda: applied(bot.bot.data) == NEXT, 60)
        began = time.monotonic()
        await bot.bot.stop()
        assert time.monotonic() - began < max(BACK_S, 4 + 2 * bot.bot.started_in)
        assert applied(bot.bot.data) == newest()
        command.cancel()
