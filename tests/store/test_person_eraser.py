"""A person is erased from every table, on SQLite and on PostgreSQL. Each table must be listed
here."""

import json
from dataclasses import replace

import pytest
from msgspec import structs

from nekro_core.chat import (
    Author,
    ChatKey,
    DeliveryState,
    Forward,
    ForwardedMessage,
    Mention,
    Notice,
    Record,
    Reply,
    Sender,
    Text,
    encode_segments,
)
from nekro_core.chat.redact import RedactionTarget
from nekro_core.store import ModelUse, Person, Step, Store, TimerRow, ToolCall, WaitingRow
from nekro_core.store.database import SqlStatement
from nekro_core.store.messages import unique_id_of, with_final_seq

USER, NAME, WORDS = "7717077", "Zaphod", "vermilion"
GROUP = ChatKey.parse("fake-group_30003")
PRIVATE = ChatKey.parse(f"fake-private_{USER}")
PERSON = Person(adapter="fake", user_id=USER, instances=("fake",))
TRACES = (USER, NAME, WORDS)

WHAT_BECOMES = {
    "accounts": "stays: it has no data of people",
    "upgrade_notes": "stays: it has no data of people",
    "partition_owners": "stays: it has no data of people",
    "item_takes": "stays: it has no data of people",
    "commit_marks": "stays: it has no data of people",
    "shared_plugins": "stays: it has plugins, and the operators who installed them",
    "plugin_reports": "stays: it has no data of people",
    "media_files": "the rows are deleted by nekro_core.cluster.shared_media, with the objects",
    "box_files": "the rows of the person's chats are deleted by nekro_core.cluster.box_storage",
    "chats": "the row of a private chat is deleted",
    "users": "the person's rows are deleted",
    "messages": "the person's messages are deleted; other messages name nobody in their place",
    "turns": "the person's id is removed",
    "steps": "the texts and the person's id are removed, the costs stay",
    "message_versions": "the rows of the person's chats are deleted",
    "prompts": "those of a private chat are deleted, hashes of the person's lines are blanked",
    "prompt_parts": "rows of the person's chats and rows with the person's words are deleted",
    "runs": "the runs of the person's turns are deleted; in other runs the id is replaced",
    "tool_calls": "as runs",
    "deliveries": "as messages",
    "plugin_data": "values about the person are deleted; in other values the person is removed",
    "timers": "the person's timers are deleted; in other timers the id is replaced",
    "model_uses": "the person's id is removed, the costs stay",
    "waiting": "questions to the person are deleted; in other rows the id is replaced",
    "audit_log": "the person's id is replaced",
    "statistics": "the person's id is removed, the sums stay",
    "latencies": "the person's id is removed, the numbers stay",
    "counted": "stays: it has no data of people",
    "console_people": "stays: it has the people who log in to the console, and no people of chats",
    "console_invitations": "as console_people",
    "console_sessions": "as console_people",
    "console_recovery_codes": "as console_people",
    "console_tokens": "as console_people",
    "documents": "the person's overrides and earlier texts are deleted by nekro_core.app.erasure",
    "search_segments": "the rows of the person's private chats are deleted",
    "search_pages": "the words of deleted and changed messages are deleted",
    "search_blocks": "the vectors of deleted and changed messages are deleted",
    "search_changes": "stays: it has only the numbers of messages",
    "memory_notes": "notes by and about the person are deleted (tested in test_memory.py)",
    "memory_summaries": "summaries with the person's words are emptied or deleted (test_memory.py)",
    "memory_chats": "the row of a private chat is deleted",
    "memory_off": "stays: it has only digests",
    "tortoise_migrations": "stays: it has no data of people",
}
"""How erasing a person changes each table. A new table needs a line here and a rule in
`nekro_core.store.person_eraser`."""


async def tables(store: Store) -> list[str]:
    """The names of all tables of the database."""
    database = store.erasing._database
    if database.dialect == "sqlite":
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    else:
        sql = (
            "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'"
        )
    return sorted(row["name"] for row in await database.read(sql))


async def everything(store: Store) -> str:
    """All rows of all tables, as text."""
    rows = []
    for table in await tables(store):
        found = await store.erasing._database.read(f"SELECT * FROM {table}")
        rows += [f"{table}: {dict(row)}" for row in found]
    return "\n".join(rows)


def record(store: Store, chat: ChatKey, user: str, *segments: object, **more: object) -> Record:
    return Record(
        seq=store.messages.reserve(),
        chat_key=chat,
        author=Author.PERSON,
        segments=segments,
        time=1000.0,
        sender=Sender(user, NAME if user == USER else "Trillian"),
        **more,
    )


async def add(store: Store, record: Record) -> Record:
    before = (
        *store.chats.seen(record.chat_key),
        *store.users.seen(record.chat_key.instance, record.sender),
    )
    await store.messages.add(record, unique_id=unique_id_of(record.message_id), before=before)
    return with_final_seq(record)


async def a_turn(store: Store, chat: ChatKey, user: str, run: str, words: str) -> None:
    """Store all rows that a turn writes."""
    turn = await store.turns.begin(chat, trigger_seq=1, through_seq=1, user_id=user)
    await store.runs.begin(run, chat, turn_id=turn.turn_id, code=f"say({words!r})")
    call = ToolCall(position=0, name="say", arguments=words, outcome="ok", started=1.0, seconds=0.1)
    await store.runs.add_calls(run, [call])
    await store.runs.end(run, output=words, stop="finished", seconds=2.0)
    await store.turns.add_step(
        turn.turn_id, Step(position=0, reply=words, tail=words, prompt_tokens=7, cost=0.5)
    )
    await store.turns.end(turn.turn_id, stop="finished")
    await store.erasing._database.write(
        SqlStatement(
            "INSERT INTO deliveries (delivery_id, chat_key, run_id, position, segments, state, "
            "message_id, reason, record_seq, created, changed) "
            "VALUES (?, ?, ?, 0, ?, ?, '', '', 0, 1, 1)",
            (run, str(chat), run, encode_segments((Text(words),)), DeliveryState.SENT.value),
        )
    )
    answer = record(store, chat, "", Text(words), run_id=run)
    await add(store, answer)


async def test_erasing_covers_every_table(store: Store) -> None:
    assert set(await tables(store)) <= WHAT_BECOMES.keys()


async def test_erasing_leaves_no_trace_of_a_person_in_any_table(store: Store) -> None:
    said = await add(store, record(store, GROUP, USER, Text(WORDS), message_id="m1"))
    await add(store, record(store, PRIVATE, USER, Text(WORDS), message_id="m2"))
    quoted = ForwardedMessage(sender_id=USER, sender_name=NAME, segments=(Text(WORDS),))
    other = await add(
        store,
        record(
            store,
            GROUP,
            "5550002",
            Reply("m1", USER, WORDS),
            Mention(USER, NAME),
            Text(f"hello {USER}, and 17717077"),
            Forward((quoted,)),
            Notice("poke", "5550002", USER),
            message_id="m3",
        ),
    )
    await a_turn(store, GROUP, USER, "run1", f"{WORDS} of {USER}")
    await a_turn(store, PRIVATE, USER, "run2", WORDS)
    await a_turn(store, GROUP, "5550002", "run3", f"about {USER}: turquoise")
    now = store.erasing._database
    times = SqlStatement("UPDATE turns SET started = 100, ended = 150 WHERE user_id = ?", (USER,))
    await now.write(times)
    await now.write(SqlStatement("UPDATE turns SET started = 499, ended = 0 WHERE started != 100"))
    for number, (chat, created) in enumerate(((GROUP, 101.0), (PRIVATE, 9.0), (GROUP, 500.0))):
        text = WORDS if number < 2 else f"remind {USER} of the turquoise"
        await store.timers.put(
            TimerRow(
                timer_id=str(number),
                chat_key=chat,
                kind="once",
                state="active",
                text=text,
                created=created,
            )
        )
    await store.model_uses.add(
        ModelUse(
            plugin="p",
            model="m",
            prompt_tokens=5,
            completion_tokens=1,
            cost=0.25,
            chat_key=str(GROUP),
            user_id=USER,
            run_id="run1",
        )
    )
    await store.waiting.put(
        WaitingRow(
            kind="question",
            name="one",
            plugin="p",
            chat_key=str(GROUP),
            user_id=USER,
            data=WORDS,
            created=1.0,
            until=2.0,
        )
    )
    for keys, value in (
        ({"user_key": USER}, WORDS),
        ({"user_key": f"fake:{USER}", "chat_key": str(GROUP)}, WORDS),
        ({"store_key": f"score_{USER}", "chat_key": str(GROUP)}, WORDS),
        ({"chat_key": str(PRIVATE)}, WORDS),
        (
            {"chat_key": str(GROUP), "store_key": "all"},
            f'{{"{USER}": "{WORDS}", "b": "turquoise"}}',
        ),
        ({"chat_key": str(GROUP), "store_key": "list"}, f'[{{"id": {USER}, "w": "{WORDS}"}}, 2]'),
        ({"chat_key": "other-group_1", "store_key": "x"}, "turquoise, on another platform"),
    ):
        await store.plugin_data.set("p", value, **keys)
    entry = await store.audit.begin(
        actor=f"fake:{USER}",
        role="operator",
        origin="chat",
        address="",
        action="chats.say",
        parameters=json.dumps({"chat_key": str(PRIVATE), "user_id": USER}),
    )
    await store.audit.finish(entry, outcome="done", subject=str(PRIVATE), new=f'["{USER}"]')
    cost = await store.turns.usage(since=0)

    traces = await store.erasing.look(PERSON)
    assert traces.private == (PRIVATE,)
    assert traces.shared == traces.worked == (GROUP,)
    assert traces.names == (NAME,)
    assert (traces.turns, traces.messages) == (2, 4)
    assert {timer for _, timer in traces.timers} == {"0", "1"}
    await store.erasing.erase(PERSON, traces)
    for _, timer_id in traces.timers:
        await store.timers.delete(timer_id)
    await store.erasing.vacuum()

    left = await everything(store)
    for trace in TRACES:
        assert trace not in left.replace("17717077", ""), trace
    assert left.count("turquoise") == 10, left
    kept = await store.messages.get(other.seq)
    assert kept is not None
    assert kept.segments == (
        Reply(""),
        Mention("", "[erased]"),
        Text("hello [erased], and 17717077"),
        Forward(()),
        Notice("poke", "5550002", ""),
    )
    assert await store.messages.get(said.seq) is None
    after = await store.turns.usage(since=0)
    assert (after.cost, after.prompt_tokens) == (cost.cost, cost.prompt_tokens)
    assert await store.turns.usage(since=0, user_id=USER) == type(after)()
    assert await store.erasing.look(PERSON) == type(traces)()


async def test_in_a_private_chat_of_several_people_only_the_persons_rows_are_erased(
    store: Store,
) -> None:
    await add(store, record(store, PRIVATE, USER, Text("mine")))
    kept = await add(store, record(store, PRIVATE, "5550002", Text("another's")))
    traces = await store.erasing.look(PERSON)
    assert (traces.private, traces.shared) == ((), (PRIVATE,))
    await store.erasing.erase(PERSON, traces)
    assert [line.seq for line in await store.messages.newest(PRIVATE, 10)] == [kept.seq]


@pytest.mark.parametrize("user", [USER, f"qq:{USER}"])
async def test_a_private_chat_in_which_the_person_never_wrote_is_deleted(
    store: Store, user: str
) -> None:
    ours = record(store, PRIVATE, "")
    await add(store, structs.replace(ours, author=Author.BOT))
    await add(store, record(store, GROUP, user, Text("mine")))
    assert (await store.erasing.look(replace(PERSON, user_id=user))).private == (PRIVATE,)


@pytest.mark.parametrize("user", ['"a b"@example.org', "back\\slash", "J\u00f6rg 100%"])
async def test_an_id_that_json_escapes_is_erased(store: Store, user: str) -> None:
    said = await add(store, record(store, GROUP, "5550002", Mention(user, NAME)))
    await store.plugin_data.set("p", json.dumps([user, "x"]), chat_key="", store_key="list")
    person = replace(PERSON, user_id=user)
    await store.erasing.erase(person, await store.erasing.look(person))
    kept = await store.messages.get(said.seq)
    assert kept is not None
    assert kept.segments == (Mention("", "[erased]"),)
    assert await store.plugin_data.get("p", chat_key="", store_key="list") == '["x"]'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("7717077", "[erased]"),
        ("id 7717077.", "id [erased]."),
        ("of_7717077", "of_[erased]"),
        ("17717077 77170770", "17717077 77170770"),
        ("nothing", "nothing"),
    ],
)
def test_an_id_inside_a_text_is_redacted(before: str, after: str) -> None:
    assert RedactionTarget(PERSON.ids).text(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"lin": 3, "mei": 4}, {"mei": 4}),
        ({"owner": "lin", "book": [1]}, {"owner": None, "book": [1]}),
        ([{"user": "lin", "x": 1}, {"user": "mei"}], [{"user": "mei"}]),
        (["lin", "mei"], ["mei"]),
        ({"a": {"fake:lin": 1, "b": 2}}, {"a": {"b": 2}}),
        ("lin wrote a line", "lin wrote a line"),  # a short id may be an ordinary word, so it stays
        ([1, 2], [1, 2]),
    ],
)
def test_an_id_inside_plugin_data_is_redacted(before: object, after: object) -> None:
    lin = Person(adapter="fake", user_id="lin", instances=("fake",))
    assert RedactionTarget(lin.ids).value(before) == after
