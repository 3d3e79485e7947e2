"""Erasing a person deletes or empties this person's rows, and keeps the rows of other people."""

import json
from pathlib import Path
from typing import Any

import pytest

from nekro_core.chat import (
    Author,
    ChatKey,
    DeliveryState,
    File,
    Image,
    Media,
    Record,
    Segments,
    Sender,
    Text,
    encode_segments,
)
from nekro_core.store import ModelUse, Person, Step, Store, TimerRow, ToolCall, WaitingRow
from nekro_core.store.database import SqlStatement
from nekro_core.store.messages import unique_id_of, with_final_seq
from nekro_core.store.prompts import PromptRow

LIN, MEI = "7717077", "5550002"
GROUP = ChatKey.parse("fake-group_1")
SECOND = ChatKey.parse("fake.2-group_1")
ELSEWHERE = ChatKey.parse("other-group_1")
PERSON = Person(adapter="fake", user_id=LIN, instances=("fake", "fake.2"))
TABLES = [
    "chats",
    "users",
    "messages",
    "turns",
    "steps",
    "runs",
    "tool_calls",
    "deliveries",
    "plugin_data",
    "timers",
    "model_uses",
    "waiting",
]


def private(user: str) -> ChatKey:
    return ChatKey.parse(f"fake-private_{user}")


async def rows(store: Store, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """These columns of all rows of a table."""
    found = await store.erasing._database.read(f"SELECT {', '.join(columns)} FROM {table}")
    return sorted(tuple(row[column] for column in columns) for row in found)


async def count(store: Store, table: str) -> int:
    (row,) = await store.erasing._database.read(f"SELECT COUNT(*) AS number FROM {table}")
    return int(row["number"])


async def said(store: Store, chat: ChatKey, user: str, words: str = "hi", **more: Any) -> Record:
    """Store a message and the rows that belong to it."""
    known: dict[str, Any] = {"author": Author.PERSON, "segments": (Text(words),)} | more
    record = Record(
        seq=store.messages.reserve(),
        chat_key=chat,
        time=1_000.0,
        sender=Sender(user, f"name of {user}"),
        **known,
    )
    before = (
        *store.chats.seen(chat),
        *store.users.seen(chat.instance, record.sender),
    )
    await store.messages.add(record, unique_id=unique_id_of(record.message_id), before=before)
    return with_final_seq(record)


async def sent(store: Store, chat: ChatKey, run: str, segments: Segments) -> None:
    await store.erasing._database.write(
        SqlStatement(
            "INSERT INTO deliveries (delivery_id, chat_key, run_id, position, segments, state, "
            "message_id, reason, record_seq, created, changed) "
            "VALUES (?, ?, ?, 0, ?, ?, '', '', 0, 1, 1)",
            (f"d-{run}", str(chat), run, encode_segments(segments), DeliveryState.SENT.value),
        )
    )


async def traces_of_a_turn(store: Store, chat: ChatKey, user: str, run: str) -> None:
    """Store a row in each table that a turn writes, and the row of a question that waits for the
    person's answer."""
    turn = await store.turns.begin(chat, trigger_seq=1, through_seq=1, user_id=user)
    await store.runs.begin(run, chat, turn_id=turn.turn_id, code="say()")
    call = ToolCall(position=0, name="say", arguments="", outcome="ok", started=1.0, seconds=0.1)
    await store.runs.add_calls(run, [call])
    step = Step(position=0, reply="words", tail="tail", prompt_tokens=7, cost=0.5, started=5.0)
    await store.turns.add_step(turn.turn_id, step)
    await store.turns.end(turn.turn_id, stop="finished")
    await sent(store, chat, run, (Text("answer"),))
    await said(store, chat, "", "answer", author=Author.BOT, run_id=run)
    await store.model_uses.add(
        ModelUse(
            plugin="p",
            model="m",
            prompt_tokens=5,
            completion_tokens=1,
            cost=0.25,
            chat_key=str(chat),
            user_id=user,
            run_id=run,
        )
    )
    await store.waiting.put(
        WaitingRow(
            kind="question",
            name=run,
            plugin="p",
            chat_key=str(chat),
            user_id=user,
            data="",
            created=1.0,
            until=2.0,
        )
    )


async def erase(store: Store) -> None:
    await store.erasing.erase(PERSON, await store.erasing.look(PERSON))


async def test_erasing_a_private_chat_keeps_only_the_costs_of_its_turns(store: Store) -> None:
    for user in (LIN, MEI):
        chat = private(user)
        await said(store, chat, user)
        await traces_of_a_turn(store, chat, user, f"run-{user}")
        await store.plugin_data.set("p", "value", chat_key=str(chat), store_key="x")
        await store.timers.put(
            TimerRow(timer_id=user, chat_key=chat, kind="once", state="active", text="")
        )
    await erase(store)
    hers = str(private(MEI))
    for table in ("chats", "turns", "runs", "deliveries", "plugin_data", "timers", "waiting"):
        assert await rows(store, table, "chat_key") == [(hers,)], table
    assert await rows(store, "messages", "chat_key") == [(hers,)] * 2
    assert await rows(store, "tool_calls", "run_id") == [(f"run-{MEI}",)]
    assert await rows(store, "users", "user_id") == [(MEI,)]
    columns = ("chat_key", "user_id", "reply", "tail", "cost", "prompt_tokens")
    assert await rows(store, "steps", *columns) == [
        ("", "", "", "", 0.5, 7),
        (hers, MEI, "words", "tail", 0.5, 7),
    ]
    assert await rows(store, "model_uses", "chat_key", "user_id", "run_id", "cost") == [
        ("", "", "", 0.25),
        (hers, MEI, f"run-{MEI}", 0.25),
    ]


async def test_turns_that_no_person_woke_in_a_private_chat_are_erased_too(
    store: Store,
) -> None:
    """A turn has no user id if a line of a program woke it, for example the line of a timer."""
    await said(store, private(LIN), LIN)
    await traces_of_a_turn(store, private(LIN), "", "run-timer")
    await erase(store)
    for table in TABLES:
        assert await count(store, table) == (table in ("steps", "model_uses")), table


async def test_rows_of_other_people_in_a_shared_chat_are_not_changed(store: Store) -> None:
    for chat in (GROUP, SECOND):
        for user in (LIN, MEI):
            await said(store, chat, user, message_id=f"{chat}-{user}")
            await traces_of_a_turn(store, chat, user, f"run-{user}-{chat}")
    await erase(store)
    chats = [str(GROUP), str(SECOND)]
    hers = [f"run-{MEI}-{chat}" for chat in chats]
    for table in ("runs", "tool_calls", "deliveries"):
        assert await rows(store, table, "run_id") == [(run,) for run in hers], table
    assert await rows(store, "messages", "author", "user_id", "run_id") == [
        *(("bot", "", run) for run in hers),
        ("person", MEI, ""),
        ("person", MEI, ""),
    ]
    assert await rows(store, "chats", "chat_key") == [(chat,) for chat in chats]
    assert await rows(store, "turns", "user_id", "chat_key") == [
        (user, chat) for user in ("", MEI) for chat in chats
    ]
    assert await rows(store, "steps", "user_id", "chat_key", "reply", "tail", "cost") == [
        ("", chats[0], "", "", 0.5),
        ("", chats[1], "", "", 0.5),
        (MEI, chats[0], "words", "tail", 0.5),
        (MEI, chats[1], "words", "tail", 0.5),
    ]
    assert await rows(store, "model_uses", "user_id", "run_id", "chat_key") == [
        ("", "", chats[0]),
        ("", "", chats[1]),
        (MEI, hers[0], chats[0]),
        (MEI, hers[1], chats[1]),
    ]
    assert await rows(store, "waiting", "user_id") == [(MEI,), (MEI,)]
    assert await rows(store, "users", "user_id") == [(MEI,), (MEI,)]


async def test_the_same_id_on_another_platform_is_another_person(store: Store) -> None:
    await said(store, ELSEWHERE, LIN)
    await traces_of_a_turn(store, ELSEWHERE, LIN, "run")
    await store.plugin_data.set("p", "value", chat_key=str(ELSEWHERE), user_key=LIN)
    await store.plugin_data.set("p", "value", chat_key=str(ELSEWHERE), store_key=LIN)
    await said(store, GROUP, LIN)
    await erase(store)
    for table in TABLES:
        many = {"plugin_data": 2, "messages": 2, "chats": 2, "timers": 0}.get(table, 1)
        assert await count(store, table) == many, table
    assert await rows(store, "turns", "user_id") == [(LIN,)]
    assert await rows(store, "users", "instance", "user_id") == [("other", LIN)]


@pytest.mark.parametrize("column", ["user_key", "store_key"])
@pytest.mark.parametrize("chat", ["", str(GROUP), str(SECOND)])
@pytest.mark.parametrize("name", [LIN, f"fake:{LIN}"])
async def test_plugin_data_under_the_id_of_the_person_is_deleted(
    store: Store, column: str, chat: str, name: str
) -> None:
    for key in (name, MEI, f"{LIN}0"):
        await store.plugin_data.set("p", "value", chat_key=chat, **{column: key})
    await erase(store)
    assert await rows(store, "plugin_data", column) == sorted([(MEI,), (f"{LIN}0",)])


async def test_a_line_of_the_bot_is_kept_even_if_it_has_the_id_of_the_person(store: Store) -> None:
    await said(store, GROUP, LIN, "theirs")
    await said(store, GROUP, LIN, "ours", author=Author.BOT)
    await erase(store)
    assert [line.segments for line in await store.messages.newest(GROUP, 10)] == [(Text("ours"),)]


async def test_erase_returns_how_many_rows_of_other_people_were_changed(store: Store) -> None:
    await said(store, GROUP, MEI, f"hello {LIN}")
    await said(store, GROUP, MEI, f"hello again, {LIN}")
    await said(store, GROUP, MEI, "hello everybody")
    traces = await store.erasing.look(PERSON)
    assert await store.erasing.erase(PERSON, traces) == 2
    assert await store.erasing.erase(PERSON, traces) == 0, "a second erasure must find nothing"


async def test_erasing_clears_the_caches_of_chats_and_users(store: Store) -> None:
    await said(store, private(LIN), LIN)
    await said(store, SECOND, LIN)
    assert len(await store.messages.newest(SECOND, 10)) == 1
    chats = (private(LIN), SECOND)
    before = [store.messages.changes(chat) for chat in chats]
    await erase(store)
    after = [store.messages.changes(chat) for chat in chats]
    assert all(now > then for now, then in zip(after, before, strict=True))
    assert await store.messages.newest(SECOND, 10) == []
    await said(store, private(LIN), LIN)
    await said(store, SECOND, LIN)
    assert await rows(store, "chats", "chat_key") == [(str(private(LIN)),), (str(SECOND),)]
    assert await rows(store, "users", "instance") == [("fake",), ("fake.2",)]


async def test_forget_record_erases_one_record(store: Store) -> None:
    lines = [await said(store, GROUP, MEI, str(number)) for number in range(3)]
    await store.erasing.forget_record(lines[1].seq)
    assert await rows(store, "messages", "seq") == [(lines[0].seq,), (lines[2].seq,)]


# ---- files


@pytest.mark.parametrize("path", ["/data/media/a_%!b.png", "C:\\data\\media\\a_%!b.png"])
async def test_a_file_that_another_person_sent_too_is_still_in_use(store: Store, path: str) -> None:
    picture = Media(path=path, name="a.png")
    assert not await store.erasing.still_used(GROUP, picture)
    await said(store, SECOND, MEI, segments=(Image(picture),))
    await said(store, GROUP, MEI, segments=(Image(Media(path="/data/media/axyzb.png")),))
    assert not await store.erasing.still_used(GROUP, picture), (
        "the file of another chat is a different file"
    )
    await said(store, GROUP, MEI, segments=(Image(Media(path="/elsewhere/a_%!b.png")),))
    assert await store.erasing.still_used(GROUP, picture)
    assert not await store.erasing.still_used(ELSEWHERE, picture)


async def test_a_file_that_the_bot_sent_is_still_in_use(store: Store) -> None:
    report = Media(path="/data/media/report.txt")
    await sent(store, GROUP, "run", (File(report),))
    assert await store.erasing.still_used(GROUP, report)
    assert not await store.erasing.still_used(SECOND, report)


async def free_pages(store: Store) -> int:
    (row,) = await store.erasing._database.read("PRAGMA freelist_count")
    return int(row["freelist_count"])


async def test_vacuum_removes_deleted_text_from_the_database_files(sqlite_url: str) -> None:
    log = Path(f"{sqlite_url.removeprefix('sqlite://')}-wal")
    async with Store.open(sqlite_url) as store:
        for _ in range(50):
            await said(store, GROUP, LIN, "vermilion " * 200)
        await erase(store)
        assert await free_pages(store) > 0
        await store.erasing.vacuum(anew=False)
        assert await free_pages(store) > 0
        assert log.stat().st_size == 0
        await store.erasing.vacuum()
        assert await free_pages(store) == 0
        assert log.stat().st_size == 0


async def test_error_texts_of_models_in_the_persons_chats_are_erased_and_their_reasons_stay(
    store: Store,
) -> None:
    secret = "the cellar is turquoise"
    await said(store, GROUP, LIN, secret)
    await traces_of_a_turn(store, GROUP, MEI, "run-mei")
    ((turn_id,),) = await rows(store, "turns", "id")
    times = json.dumps({"at": 1.0, "model": "b", "passed": [["a", "refused", secret, 12.0]]})
    row = PromptRow(
        turn_id=turn_id, position=7, chat_key=str(GROUP), recipe="", times=times, error=secret
    )
    await store.prompts.add(row, [])
    await erase(store)
    (found,) = [each for each in await store.prompts.of_turn(turn_id) if each.position == 7]
    assert secret not in f"{found.times} {found.error}"
    assert json.loads(found.times)["passed"] == [["a", "refused", "", 12.0]]
    assert found.error
