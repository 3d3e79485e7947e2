"""A backup brings back the same chats, settings, plugins and media."""

import os
import sqlite3
import stat
import threading
import time
import zipfile
from pathlib import Path

import anyio
import pytest

from nekro_core.app.documents import (
    PATTERNS,
    copy_documents,
    settle_before_start,
    working_copies,
)
from nekro_core.app.restore import carry_out_prepared, restore_backup
from nekro_core.app.settings import Settings
from nekro_core.backup.archive_reader import BackupArchive
from nekro_core.backup.config_secrets import LARGEST
from nekro_core.backup.errors import (
    BackupCancelled,
    BackupRefused,
    RestoreRefused,
    WrongPassphrase,
)
from nekro_core.backup.make import make_backup
from nekro_core.backup.progress import BackupProgress, BackupWork, run_in_thread
from nekro_core.backup.service import BackupService
from nekro_core.backup.settings import BackupSettings
from nekro_core.backup.stage import check_backup, take_place
from nekro_core.chat import Image
from nekro_core.store import DataFolderLock, Store
from tests.backup.alone import run_alone
from tests.backup.conftest import (
    CONDUCT,
    CONFIG,
    PASSPHRASE,
    PICTURE,
    snapshot,
    source_of,
    talk,
    texts_in,
    url_of,
    write,
)
from tests.store.conftest import GROUP, say


async def test_a_restored_folder_has_the_same_chats_settings_plugins_and_media(
    data: Path, tmp_path: Path, settings: Settings
) -> None:
    await talk(data, "hello", "and good night")
    backup = tmp_path / "backup.zip"
    made = make_backup(source_of(data), backup, BackupWork())
    assert check_backup(backup, BackupWork()) == made.manifest
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600

    target = tmp_path / "new" / "data"
    report = await restore_backup(settings, backup, target)
    assert report.aside is None
    assert await texts_in(target) == await texts_in(data)
    assert (target / "conduct.toml").read_bytes() == CONDUCT
    assert (target / "plugins" / "weather.py").read_bytes() == b"# a plugin\n"
    assert stat.S_IMODE((target / "plugins" / "tool.sh").stat().st_mode) == 0o700
    assert (target / "boxes" / GROUP.file_name / "default.tar").read_bytes() == b"files of a box"
    assert not (target / "running.json").exists()
    assert not (target / "models").exists()
    async with Store.open(url_of(target)) as store:
        (newest,) = await store.messages.newest(GROUP, 1)
        image = newest.segments[1]
        assert isinstance(image, Image)
        assert Path(image.media.path).read_bytes() == PICTURE
        assert image.media.path.startswith(str(target))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


async def test_secrets_are_in_a_backup_only_encrypted_and_on_request(
    data: Path, tmp_path: Path, settings: Settings
) -> None:
    await talk(data)
    env = tmp_path / ".env"
    env.write_text("NEKRO_LLM__API_KEY=sk-abcdefgh\n")
    secrets = (b"the-token-of-the-page", b"k-1234567890", b"sk-abcdefgh")
    plain, locked = tmp_path / "plain.zip", tmp_path / "locked.zip"
    made = make_backup(source_of(data, env), plain, BackupWork())
    assert any("config.yaml" in each for each in made.manifest.left_out)
    make_backup(source_of(data, env), locked, BackupWork(), passphrase=PASSPHRASE)
    for backup in (plain, locked):
        with zipfile.ZipFile(backup) as opened:
            content = b"".join(opened.read(name) for name in opened.namelist())
        assert not [each for each in secrets if each in content]
        assert b"city: Delft" in content

    with pytest.raises(WrongPassphrase):
        await restore_backup(settings, locked, tmp_path / "no", passphrase="something else")
    assert not (tmp_path / "no").exists()
    here = tmp_path / "here"
    here.mkdir()
    await restore_backup(
        settings, locked, tmp_path / "all", passphrase=PASSPHRASE, settings_folder=here
    )
    assert (tmp_path / "all/secrets/web_access_token").read_bytes() == secrets[0]
    assert (tmp_path / "all/plugin_data/ann.weather/config.yaml").read_bytes() == CONFIG
    assert (here / ".env").read_bytes() == env.read_bytes()
    await restore_backup(settings, plain, tmp_path / "some")
    restored = (tmp_path / "some/plugin_data/ann.weather/config.yaml").read_text()
    assert "Delft" in restored
    assert "k-1234567890" not in restored


async def test_a_configuration_that_is_too_large_to_be_searched_counts_as_secret(
    data: Path, tmp_path: Path, settings: Settings
) -> None:
    await talk(data)
    large = CONFIG + b"notes: " + b"x" * LARGEST + b"\n"
    write(data / "plugin_data" / "ann.weather" / "config.yaml", large)
    plain, locked = tmp_path / "plain.zip", tmp_path / "locked.zip"
    made = make_backup(source_of(data), plain, BackupWork())
    (sentence,) = (each for each in made.manifest.left_out if "config.yaml" in each)
    assert sentence == (
        f"plugin_data/ann.weather/config.yaml: it may have keys and has over {LARGEST} bytes; "
        "only in a backup with secrets"
    )
    make_backup(source_of(data), locked, BackupWork(), passphrase=PASSPHRASE)
    for backup in (plain, locked):
        with zipfile.ZipFile(backup) as opened:
            assert not [each for each in opened.namelist() if "config.yaml" in each]
    await restore_backup(settings, locked, tmp_path / "all", passphrase=PASSPHRASE)
    assert (tmp_path / "all/plugin_data/ann.weather/config.yaml").read_bytes() == large


async def test_documents_of_the_database_are_in_a_backup_as_files(
    data: Path, tmp_path: Path, settings: Settings
) -> None:
    settings = settings.model_copy(update={"nekro_documents": "database", "nekro_data_dir": data})
    key, other = "sk-abcdefgh", "k-1234567890"
    await copy_documents(settings, "database", overwrite=False)
    async with Store.open(url_of(data)) as store:
        copies = working_copies(data, store.documents)
        await copies.settle()
        await copies.write("secrets.toml", f"[llm]\napi_key = '{key}'\n", expected=None)
        await copies.write("personas/ann.json", "{}", expected=None)
        plain, locked = tmp_path / "plain.zip", tmp_path / "locked.zip"
        make_backup(source_of(data), plain, BackupWork())
        make_backup(source_of(data), locked, BackupWork(), passphrase=PASSPHRASE)
    for backup in (plain, locked):
        with zipfile.ZipFile(backup) as opened:
            content = b"".join(opened.read(name) for name in opened.namelist())
        assert not [each for each in (key, other) if each.encode() in content], backup
    for backup, passphrase in ((plain, None), (locked, PASSPHRASE)):
        target = tmp_path / backup.stem / "data"
        await restore_backup(settings, backup, target, passphrase=passphrase)
        there = settings.model_copy(update={"nekro_data_dir": target})
        assert await settle_before_start(there)
        async with Store.open(url_of(target)) as store:
            texts = {
                name: document.text
                for name in await store.documents.listed(*PATTERNS)
                if (document := await store.documents.read(name)) is not None
            }
        assert texts["conduct.toml"].encode() == CONDUCT
        assert texts["personas/ann.json"] == "{}"
        assert "Delft" in texts["plugin_data/ann.weather/config.yaml"]
        assert (other in texts["plugin_data/ann.weather/config.yaml"]) == bool(passphrase)
        assert (key in texts.get("secrets.toml", "")) == bool(passphrase)


def test_a_short_passphrase_is_refused_and_leaves_no_file(data: Path, tmp_path: Path) -> None:
    run_alone(talk, data)
    before = snapshot(tmp_path)
    with pytest.raises(BackupRefused, match="expected 8 or more"):
        make_backup(source_of(data), tmp_path / "b.zip", BackupWork(), passphrase="short")
    assert {*snapshot(tmp_path)} - {*before} <= {"data/backups/.making"}


async def test_a_backup_made_while_messages_are_written_has_the_state_of_one_moment(
    data: Path, tmp_path: Path, settings: Settings
) -> None:
    await talk(data, *(f"old {number} " + "x" * 2000 for number in range(2000)))
    backup, ended = tmp_path / "backup.zip", False
    async with Store.open(url_of(data)) as store, anyio.create_task_group() as tasks:
        slowest = 0.0

        async def write_on() -> None:
            nonlocal slowest
            number = 0
            while not ended:
                began = time.monotonic()
                await say(store, f"new {number}")
                slowest = max(slowest, time.monotonic() - began)
                number += 1

        tasks.start_soon(write_on)
        await anyio.sleep(0.1)
        work = BackupWork()
        await run_in_thread(work, lambda: make_backup(source_of(data), backup, work))
        ended = True
    assert slowest < 2.0, "a write must not wait for the whole copy"
    await restore_backup(settings, backup, tmp_path / "new")
    restored, original = await texts_in(tmp_path / "new"), await texts_in(data)
    new = [text for text in restored if text.startswith("new ")]
    assert new
    assert new == [text for text in original if text.startswith("new ")][: len(new)]


async def test_a_used_folder_is_replaced_only_on_request_and_kept_under_another_name(
    data: Path, tmp_path: Path, settings: Settings
) -> None:
    await talk(data, "before")
    backup = tmp_path / "backup.zip"
    make_backup(source_of(data), backup, BackupWork())
    await talk(data, "after")
    before = snapshot(data)
    with pytest.raises(RestoreRefused, match="--replace"):
        await restore_backup(settings, backup, data)
    with DataFolderLock(data), pytest.raises(RestoreRefused, match="in use"):
        await restore_backup(settings, backup, data, replace=True)
    assert snapshot(data) == before | {"nekro.lock": (data / "nekro.lock").read_bytes()}

    report = await restore_backup(settings, backup, data, replace=True)
    assert report.aside is not None
    assert "after" not in await texts_in(data)
    assert "after" in await texts_in(report.aside)
    # The secrets stay, because the backup has none.
    assert (data / "secrets/web_access_token").read_bytes() == b"the-token-of-the-page"
    assert (data / "models/large.gguf").exists()


def test_a_folder_that_cannot_be_carried_over_after_a_restore_is_named_with_its_paths(
    tmp_path: Path,
) -> None:
    staged, target = tmp_path / "staged", tmp_path / "data"
    write(staged / "new.txt", b"new")
    # No folder can be moved to the place of this link.
    (staged / "models").symlink_to(tmp_path / "nowhere")
    for name in ("old.txt", "models/large.gguf", "logs/bot.log"):
        write(target / name, b"old")
    aside, failed = take_place(staged, target, 0.0)
    assert aside is not None
    assert (target / "new.txt").exists()
    assert (aside / "old.txt").exists()
    assert (target / "logs/bot.log").exists(), "the other folders must be moved all the same"
    (sentence,) = failed
    assert f"{aside / 'models'} cannot be moved to {target / 'models'}" in sentence
    assert (aside / "models/large.gguf").exists()


def test_a_folder_that_cannot_be_replaced_stays_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "data"
    write(target / "old.txt", b"old")
    before = snapshot(target)
    with pytest.raises(RestoreRefused, match="nothing was changed: No such file"):
        take_place(tmp_path / "staged", target, 0.0)
    assert snapshot(target) == before
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


async def test_settings_that_cannot_be_written_do_not_end_a_restore(
    data: Path, tmp_path: Path, settings: Settings
) -> None:
    await talk(data, "hello")
    write(tmp_path / "first" / ".env", b"PORT=1\n")
    backup = tmp_path / "backup.zip"
    source = source_of(data, tmp_path / "first" / ".env")
    make_backup(source, backup, BackupWork(), passphrase=PASSPHRASE)
    nowhere = tmp_path / "a file"
    nowhere.write_bytes(b"")
    report = await restore_backup(
        settings, backup, tmp_path / "new", passphrase=PASSPHRASE, settings_folder=nowhere / "x"
    )
    assert await texts_in(tmp_path / "new") == await texts_in(data)
    assert any("the .env of the backup cannot be written" in each for each in report.sentences)


async def test_a_prepared_restore_is_carried_out_at_the_next_start(
    data: Path, tmp_path: Path
) -> None:
    settings = Settings(_env_file=None, nekro_data_dir=data)  # type: ignore[call-arg]
    await talk(data, "before")
    async with BackupService.open(source_of(data), BackupSettings()) as service:
        made = await service.make(passphrase=PASSPHRASE)
        await talk(data, "after")
        with DataFolderLock(data):  # a running bot holds this lock
            await service.prepare_restore(made.path.name, passphrase=PASSPHRASE)
            assert await service.prepared_restore() is not None
        assert "after" in await texts_in(data)
        report = await carry_out_prepared(settings)
        assert report is not None
        assert "after" not in await texts_in(data)
        assert [each.name for each in await service.list()] == [made.path.name]
    assert await carry_out_prepared(settings) is None


async def test_if_a_restore_cannot_be_prepared_the_earlier_one_stays_prepared(
    data: Path, tmp_path: Path
) -> None:
    await talk(data, "before")
    async with BackupService.open(source_of(data), BackupSettings()) as service:
        made = await service.make()
        earlier = await service.prepare_restore(made.path.name)
        beside = {each.name for each in tmp_path.iterdir()}
        (data / "restore" / ".next.json.new").mkdir()
        with pytest.raises(IsADirectoryError):
            await service.prepare_restore(made.path.name)
        assert await service.prepared_restore() == earlier
        assert {each.name for each in tmp_path.iterdir()} == beside
        (data / "restore" / ".next.json.new").rmdir()
        later = await service.prepare_restore(made.path.name)
        assert await service.prepared_restore() == later
        assert {each.name for each in tmp_path.iterdir()} == {*beside, later.folder} - {
            earlier.folder
        }


async def test_a_stopped_backup_leaves_no_file(data: Path, tmp_path: Path) -> None:
    await talk(data)
    write(data / "plugin_data" / "ann.weather" / "large.bin", bytes(5_000_000))
    before = snapshot(data)
    async with BackupService.open(source_of(data), BackupSettings()) as service:
        seen: list[BackupProgress] = []

        def report(progress: BackupProgress) -> None:
            seen.append(progress)
            if progress.phase == "files" and progress.done > 1_000_000:
                service.stop()

        with pytest.raises(BackupCancelled):
            await service.make(report=report)
        assert seen
        assert await service.list() == ()
        with anyio.move_on_after(0.01):
            await service.make(report=lambda _: time.sleep(0.005))
        assert service.running is None
        assert await service.list() == ()
    after = snapshot(data)
    assert {*after} - {*before} <= {"backups/.making", "nekro.sqlite3-wal", "nekro.sqlite3-shm"}


@pytest.mark.parametrize("kind", ["link", "socket", "folder", "nothing"])
async def test_a_file_that_is_replaced_while_the_backup_is_made_is_left_out(
    data: Path, tmp_path: Path, kind: str
) -> None:
    await talk(data)
    for name in ("1", "2", "3"):
        write(data / "plugin_data" / "ann.weather" / name, bytes(1000))
    replaced: list[str] = []

    def replace(progress: BackupProgress) -> None:
        if progress.phase != "files" or replaced:
            return
        replaced.append(kind)
        path = data / "plugin_data" / "ann.weather" / "3"
        path.unlink()
        if kind == "link":
            path.symlink_to(tmp_path / "elsewhere")
        elif kind == "socket":
            os.mknod(path, stat.S_IFSOCK | 0o600)
        elif kind == "folder":
            path.mkdir()

    write(tmp_path / "elsewhere", b"not the bot's")
    backup = tmp_path / "backup.zip"
    make_backup(source_of(data), backup, BackupWork(report=replace))
    assert replaced == [kind]
    with zipfile.ZipFile(backup) as opened:
        names = [each for each in opened.namelist() if "ann.weather/" in each]
    assert [each[-1] for each in names if each[-1].isdecimal()] == ["1", "2"]


async def test_files_of_a_killed_backup_are_deleted_by_the_next_backup(data: Path) -> None:
    await talk(data)
    write(data / "backups" / ".nekro-backup-killed" / "database", b"half a copy")
    async with BackupService.open(source_of(data), BackupSettings()) as service:
        made = await service.make()
    assert {path.name for path in (data / "backups").iterdir()} == {made.path.name, ".making"}


async def test_old_backups_are_deleted_after_a_new_one_was_checked(data: Path) -> None:
    await talk(data)
    now = 1_700_000_000.0
    async with BackupService.open(
        source_of(data), BackupSettings(keep=2), wall=lambda: now
    ) as service:
        names = []
        for _ in range(3):
            names.append((await service.make()).path.name)
            now += 60
            time.sleep(0.02)
        assert [each.name for each in await service.list()] == names[:0:-1]
        await service.check(names[-1])
        await service.delete(names[-1])
        with pytest.raises(BackupRefused, match="there is no backup"):
            await service.check(names[-1])
        with pytest.raises(BackupRefused):
            await service.path("../nekro.sqlite3")


async def test_the_schedule_makes_a_backup_when_the_newest_is_old_enough(data: Path) -> None:
    await talk(data)
    now = time.time()
    async with BackupService.open(
        source_of(data), BackupSettings(every_hours=24), wall=lambda: now, look_s=0.01
    ) as service:
        with anyio.fail_after(30):
            while not await service.list():
                await anyio.sleep(0.01)
        await anyio.sleep(0.2)
        assert len(await service.list()) == 1
        now += 25 * 3600
        with anyio.fail_after(30):
            while len(await service.list()) < 2:
                await anyio.sleep(0.01)


async def test_a_schedule_that_is_set_while_the_bot_runs_makes_a_backup(data: Path) -> None:
    await talk(data)
    settings = BackupSettings()
    async with BackupService.open(source_of(data), settings, look_s=0.01) as service:
        await anyio.sleep(0.1)
        assert await service.list() == ()
        settings.take_over(BackupSettings(every_hours=24))
        with anyio.fail_after(30):
            while not await service.list():
                await anyio.sleep(0.01)


async def test_a_process_makes_the_backups_of_the_schedule_only_while_it_is_chosen_for_it(
    data: Path,
) -> None:
    await talk(data)
    chosen: list[bool] = []
    days = [0.0]
    async with BackupService.open(
        source_of(data),
        BackupSettings(every_hours=24),
        wall=lambda: time.time() + 86_400 * days[0],
        look_s=0.01,
        keeps_schedule=lambda: bool(chosen),
    ) as service:

        async def made(count: int) -> None:
            with anyio.fail_after(30):
                while len(await service.list()) < count or service.running is not None:
                    await anyio.sleep(0.01)

        await anyio.sleep(0.1)
        assert await service.list() == ()
        chosen.append(True)
        await made(1)
        chosen.clear()
        days[0] = 2.0
        await anyio.sleep(0.1)
        assert len(await service.list()) == 1
        chosen.append(True)
        await made(2)


async def test_a_process_makes_no_backup_if_another_is_chosen_while_it_lists_its_backups(
    data: Path,
) -> None:
    await talk(data)
    asked = 0

    def chosen() -> bool:
        """Only until the backups are listed, which follows each first question."""
        nonlocal asked
        asked += 1
        return bool(asked % 2)

    async with BackupService.open(
        source_of(data), BackupSettings(every_hours=24), look_s=0.01, keeps_schedule=chosen
    ) as service:
        with anyio.fail_after(30):
            while asked < 10:
                await anyio.sleep(0.01)
        assert await service.list() == ()


def test_only_one_backup_is_made_at_a_time(data: Path, tmp_path: Path) -> None:
    run_alone(talk, data)
    inside, go = threading.Event(), threading.Event()

    def wait(_: BackupProgress) -> None:
        inside.set()
        go.wait(30)

    slow = threading.Thread(
        target=make_backup, args=(source_of(data), tmp_path / "one.zip", BackupWork(wait))
    )
    slow.start()
    assert inside.wait(30)
    with pytest.raises(BackupRefused, match="another backup"):
        make_backup(source_of(data), tmp_path / "two.zip", BackupWork())
    go.set()
    slow.join()
    assert (tmp_path / "one.zip").exists()


async def test_a_plugins_own_database_is_copied_as_a_database(
    data: Path, tmp_path: Path, settings: Settings
) -> None:
    await talk(data)
    path = data / "plugin_data" / "ann.weather" / "own.db"
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE t (x)")
    writer.execute("INSERT INTO t VALUES ('only in the log')")
    writer.commit()
    make_backup(source_of(data), tmp_path / "b.zip", BackupWork())
    writer.close()
    with BackupArchive.open(tmp_path / "b.zip") as archive:
        names = [member.name for member in archive.manifest.members]
    assert "data/plugin_data/ann.weather/own.db-wal" not in names
    await restore_backup(settings, tmp_path / "b.zip", tmp_path / "new")
    copy = sqlite3.connect(tmp_path / "new/plugin_data/ann.weather/own.db")
    assert copy.execute("SELECT x FROM t").fetchall() == [("only in the log",)]
    copy.close()


async def test_symbolic_links_are_left_out_and_reported(data: Path, tmp_path: Path) -> None:
    await talk(data)
    (data / "plugins" / "linked").symlink_to("/etc")
    made = make_backup(source_of(data), tmp_path / "b.zip", BackupWork())
    assert "plugins/linked: is a link" in made.manifest.left_out
