"""A restored bot repeats nothing, and erased people's words do not come back."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
from tortoise.context import TortoiseContext
from tortoise.migrations.executor import MigrationExecutor, MigrationTarget

from nekro_core.agent.erasure.marks import ErasureMarks
from nekro_core.app.restore import restore_backup
from nekro_core.app.restored_people import NOTE
from nekro_core.app.settings import Settings
from nekro_core.backup.make import make_backup
from nekro_core.backup.progress import BackupWork
from nekro_core.chat import ChatKey, DeliveryState, Image, Media, Sender, Text
from nekro_core.store import SqlStatement, Store, TimerRow, WaitingRow
from nekro_core.store.migrate import APPS, configuration
from nekro_core.store.upgrade import APP
from tests.backup.conftest import snapshot, source_of, talk, url_of, write
from tests.store.conftest import GROUP, say

DAY = 86_400.0
MADE = 1_790_000_000.0
LEAVER = Sender("1717077", "Vermilion Otter")
PRIVATE = ChatKey.parse("onebot_v11-private_1717077")


def timer(name: str, due: float, **more: object) -> TimerRow:
    fields: dict[str, object] = {"kind": "once", "title": "", "cron": "", "timezone": "UTC"}
    return TimerRow(
        timer_id=name,
        chat_key=GROUP,
        state="active",
        text="remind",
        due=due,
        created=MADE - DAY,
        **(fields | more),  # type: ignore[arg-type]
    )


async def test_a_restored_bot_sends_and_fires_nothing_a_second_time(
    data: Path, tmp_path: Path, settings: Settings
) -> None:
    await talk(data)
    async with Store.open(url_of(data)) as store:
        asked = await say(store, "a question", message_id="m1")
        await store.turns.begin(GROUP, trigger_seq=asked.seq, through_seq=asked.seq)
        for name, state in (("d1", "pending"), ("d2", "sending"), ("d3", "sent")):
            await store.queries._database.write(_delivery(name, state))
        await store.timers.put(timer("past", MADE + DAY))
        await store.timers.put(timer("later", MADE + 9 * DAY))
        await store.timers.put(timer("daily", MADE + 60, kind="recurring", cron="0 9 * * *"))
        await store.waiting.put(
            WaitingRow(
                kind="question",
                name="q",
                plugin="",
                chat_key=str(GROUP),
                user_id="",
                data="{}",
                created=MADE,
                until=MADE + 60,
            )
        )
    backup, now = tmp_path / "b.zip", MADE + 3 * DAY
    make_backup(source_of(data), backup, BackupWork(), wall=lambda: MADE)
    report = await restore_backup(settings, backup, tmp_path / "new", wall=lambda: now)
    async with Store.open(url_of(tmp_path / "new")) as store:
        states = {
            row.delivery_id: row.state for row in await store.deliveries.newest(*DeliveryState)
        }
        assert states == {
            "d1": DeliveryState.UNKNOWN,
            "d2": DeliveryState.UNKNOWN,
            "d3": DeliveryState.SENT,
        }
        assert await store.deliveries.undecided(since=now - 600) == []
        assert await store.turns.interrupted() == []
        assert await store.turns.unanswered(since=0) == []
        assert await store.waiting.all("question") == []
        due = {row.timer_id: (row.state, row.due) for row in await store.timers.all()}
        assert due["later"] == ("active", MADE + 9 * DAY)
        assert due["past"][0] == "over"
        assert due["daily"][0] == "active"
        assert now < due["daily"][1] < now + DAY
    said = " ".join(report.sentences)
    assert "2 messages were waiting" in said
    assert "2 timers were due" in said


def _delivery(name: str, state: str) -> SqlStatement:
    return SqlStatement(
        "INSERT INTO deliveries (delivery_id, chat_key, run_id, position, segments, state, "
        "message_id, reason, record_seq, created, changed) "
        "VALUES (?, ?, '', 0, '[]', ?, '', '', 0, ?, ?)",
        (name, str(GROUP), state, MADE, MADE),
    )


async def test_a_person_who_was_erased_after_the_backup_is_not_in_the_restored_folder(
    data: Path, tmp_path: Path
) -> None:
    settings = Settings(_env_file=None, nekro_data_dir=data)  # type: ignore[call-arg]
    picture = data / "uploads" / GROUP.file_name / ("b" * 32 + ".png")
    write(picture, b"picture of the otter")
    write(data / "boxes" / PRIVATE.file_name / "default.tar", b"file of the otter")
    await talk(data, "turquoise-badger")
    async with Store.open(url_of(data)) as store:
        await say(store, "saffron-newt", sender=LEAVER)
        await say(store, "indigo-vole", sender=LEAVER, key=PRIVATE)
        image = Image(media=Media(path=str(picture), name="b.png", mime="image/png", size=20))
        await say(store, segments=(Text("cerise-gecko"), image), sender=LEAVER)
        await say(store, "and 1717077 said so")
    backup = tmp_path / "b.zip"
    make_backup(source_of(data), backup, BackupWork(), wall=lambda: MADE)
    secret = data / "secrets" / "erased"
    marks = ErasureMarks(data / "erased.json", secret.read_text, lambda: MADE + 60)
    marks.add("onebot_v11", LEAVER.user_id)
    traces = (b"1717077", b"saffron-newt", b"indigo-vole", b"cerise-gecko", b"of the otter")

    def found(folder: Path) -> set[bytes]:
        files = snapshot(folder)
        # This file still names the person, because the first start needs to know whom to erase.
        files.pop(NOTE, None)
        return {
            each
            for each in traces
            if any(each in content or each.decode() in name for name, content in files.items())
        }

    elsewhere = Settings(_env_file=None, nekro_data_dir=tmp_path / "no")  # type: ignore[call-arg]
    await restore_backup(elsewhere, backup, tmp_path / "unaware")
    assert found(tmp_path / "unaware") == {*traces}, (
        "without the marks, each trace must be in the folder"
    )

    report = await restore_backup(settings, backup, tmp_path / "new")
    assert report.erased == 1
    assert found(tmp_path / "new") == set()
    assert b"turquoise-badger" in (tmp_path / "new" / "nekro.sqlite3").read_bytes()
    note = msgspec.json.decode((tmp_path / "new" / NOTE).read_bytes())
    assert [each["user_id"] for each in note["people"]] == [LEAVER.user_id]
    kept = ErasureMarks(tmp_path / "new/erased.json", secret.read_text, lambda: MADE)
    assert kept.was_erased("onebot_v11", LEAVER.user_id, MADE)

    report = await restore_backup(settings, backup, data, replace=True)
    assert report.erased == 1
    assert found(data) == set()


async def test_a_person_who_was_erased_before_the_backup_and_wrote_again_stays(
    data: Path, tmp_path: Path
) -> None:
    settings = Settings(_env_file=None, nekro_data_dir=data)  # type: ignore[call-arg]
    await talk(data)
    secret = data / "secrets" / "erased"
    ErasureMarks(data / "erased.json", secret.read_text, lambda: MADE - 60).add(
        "onebot_v11", LEAVER.user_id
    )
    async with Store.open(url_of(data)) as store:
        await say(store, "here again", sender=LEAVER)
    make_backup(source_of(data), tmp_path / "b.zip", BackupWork(), wall=lambda: MADE)
    report = await restore_backup(settings, tmp_path / "b.zip", tmp_path / "new")
    assert report.erased == 0
    assert b"here again" in (tmp_path / "new/nekro.sqlite3").read_bytes()


async def test_a_backup_older_than_the_time_for_which_erasures_are_remembered_gives_a_warning(
    data: Path, tmp_path: Path, settings: Settings
) -> None:
    await talk(data)
    make_backup(source_of(data), tmp_path / "b.zip", BackupWork(), wall=lambda: MADE)
    report = await restore_backup(
        settings, tmp_path / "b.zip", tmp_path / "new", wall=lambda: MADE + 500 * DAY
    )
    assert any("older than 400 days" in each for each in report.sentences)


async def test_a_backup_from_before_a_migration_is_migrated(
    data: Path, tmp_path: Path, settings: Settings
) -> None:
    file = data / "nekro.sqlite3"
    async with TortoiseContext() as context:
        await context.init(configuration("tortoise.backends.sqlite", {"file_path": str(file)}))
        executor = MigrationExecutor(context.db(), APPS)
        await executor.migrate([MigrationTarget(APP, "0004_answered_elsewhere")])
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(
            "INSERT INTO chats (chat_key, instance, first_seen, handled_seq) VALUES (?, ?, 1, 0)",
            (str(GROUP), "onebot_v11"),
        )
    make_backup(source_of(data), tmp_path / "b.zip", BackupWork())
    await restore_backup(settings, tmp_path / "b.zip", tmp_path / "new")
    async with Store.open(url_of(tmp_path / "new")) as store:
        assert await store.chats.of_instance("onebot_v11") == [GROUP]
    assert not (tmp_path / "new" / "copies").exists()
