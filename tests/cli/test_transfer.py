"""``nekro export`` writes what a bot knows to a file, and ``nekro import`` gives it to another bot.
Both work with and without a running bot."""

import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest

from nekro_core.agent.erasure.marks import FILE_NAME as MARKS
from nekro_core.agent.erasure.marks import ErasureMarks
from nekro_core.system.secrets import kept_secret
from tests.cli.nekro import Ended, nekro, nekro_meanwhile
from tests.e2e.bot_process import BotProcess, running_bot
from tests.peers.scripted_model import ScriptedModelServer

PAGE = Path(__file__).parents[2] / "docs/export-format.md"
GROUP = "onebot_v11-group_30003"


def example() -> str:
    """The example file of the page that describes the lines of an export."""
    (block,) = re.findall(
        r"^```jsonl\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    return str(block)


def line(kind: str, **fields: object) -> str:
    return json.dumps({"type": kind, "version": 1, **fields}, ensure_ascii=False) + "\n"


def said(text: str, at: float, chat: str = GROUP, **fields: object) -> str:
    content = {"segments": [{"type": "text", "text": text}], "author": "person", "user_id": "10001"}
    return line("message", chat_key=chat, time=at, **{**content, **fields})


def imported(folder: Path, lines: str, *options: str) -> Ended:
    (folder / "lines.jsonl").write_text(lines, "utf-8")
    return nekro(folder, "import", "lines.jsonl", *options)


def exported(folder: Path, *options: str) -> list[dict[str, object]]:
    done = nekro(folder, "export", *options)
    assert (done.status, done.err) == (0, "")
    return [json.loads(each) for each in done.out.splitlines()]


def counts(done: Ended) -> dict[str, tuple[int, ...]]:
    """The numbers that the command prints: new, existed, differ, refused."""
    lines = (each.partition(": ") for each in done.out.splitlines())
    return {kind: tuple(map(int, re.findall(r"\d+", rest))) for kind, _, rest in lines}


EVERY = ("setting", "persona", "policy", "account", "chat", "person", "note")


def test_the_example_of_the_page_is_imported_once_and_can_be_exported(folder: Path) -> None:
    dry = imported(folder, example(), "--dry-run")
    assert (dry.status, dry.err) == (0, "")
    assert counts(dry) == {**dict.fromkeys(EVERY, (1, 0, 0, 0)), "message": (2, 0, 0, 0)}
    assert "would be new" in dry.out
    (head,) = exported(folder, "--messages")
    assert head["type"] == "export", "a dry run stores nothing"

    done = imported(folder, example())
    assert (done.status, done.err) == (0, "")
    assert counts(done) == counts(dry)
    again = imported(folder, example())
    assert (again.status, again.err) == (0, "")
    assert counts(again) == {**dict.fromkeys(EVERY, (0, 1, 0, 0)), "message": (0, 2, 0, 0)}

    wanted = [json.loads(each) for each in example().splitlines()][1:]
    found = exported(folder, "--messages")[1:]
    assert [each["type"] for each in found] == [each["type"] for each in wanted]
    for there, asked in zip(found, wanted, strict=True):
        free = {"saved"} if asked["type"] == "persona" else set()
        assert {name: there.get(name) for name in asked.keys() - free} == {
            name: value for name, value in asked.items() if name not in free
        }
    # What came out goes into another folder.
    other = folder / "other"
    other.mkdir()
    text = "".join(json.dumps(each) + "\n" for each in found)
    assert counts(imported(other, text)) == counts(done)


def test_an_export_has_no_secret_and_nothing_of_this_machine(folder: Path) -> None:
    nekro(folder, "set", "llm.api_key", "sk-vermilion", "agent.language", "ja")
    assert nekro(folder, "export", "all.jsonl").out == "all.jsonl: 2 lines\n"
    text = (folder / "all.jsonl").read_text("utf-8")
    assert "vermilion" not in text
    assert (folder / "all.jsonl").stat().st_mode & 0o777 == 0o600
    refused = nekro(folder, "export", "all.jsonl")
    assert refused.status == 1
    assert "all.jsonl" in refused.err, "an existing file is never replaced"
    lines = line("setting", name="llm.api_key", value="x") + line("setting", name="port", value=1)
    done = imported(folder, lines + line("setting", name="agent.colour", value="red"))
    assert (done.status, counts(done)) == (1, {"setting": (0, 0, 0, 3)})


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("no json\n", "it is no JSON"),
        ("[1]\n", 'no JSON object with a "type"'),
        (json.dumps({"type": "chat", "version": 2, "chat_key": GROUP}) + "\n", "version 2 of chat"),
        (json.dumps({"type": "chat", "chat_key": GROUP}) + "\n", "version None of chat"),
        (json.dumps({"type": "chat", "version": True, "chat_key": GROUP}) + "\n", "version True"),
        (line("moon", phase="full"), "type 'moon': known are export, setting"),
        (line("chat", chat_key=GROUP, colour="red"), "colour"),
        (line("chat", chat_key="nowhere"), "nowhere"),
        (line("chat"), "chat_key"),
        (line("person", instance="a b", user_id="1"), "a b"),
        (line("policy", table=["moon"], field="state", value="off"), "expected one of"),
        (line("policy", table=["bot"], field="state", value="loud"), "state"),
        (line("policy", table=["people", "x"], field="ignored", value=True), "'x'"),
        (line("persona", name="../x", text="y"), "name"),
        (line("note", chat_key=GROUP, text="x" * 600), "text"),
        (said("x", -1.0), "time -1.0: expected seconds since 1970"),
        (said("x", 1.0, author="moon"), "moon"),
        (said("x", 1.0, segments=[{"type": "moon"}]), "moon"),
        (said("x", 1.0, id="i" * 300), "id has 300 characters"),
        (said("x" * 1_000_001, 1.0), "characters; at most 1000000"),
        (line("setting", name="agent.names", value=json.loads("[" * 50 + "]" * 50)), "deep"),
        (line("setting", name="agent.language", value="tlh"), "agent.language"),
    ],
)
def test_a_line_that_cannot_be_imported_is_named_and_the_others_are_imported(
    folder: Path, bad: str, why: str
) -> None:
    before, after = line("chat", chat_key=GROUP, name="a"), line("chat", chat_key="web-group_b")
    done = imported(folder, before + "\n" + bad + after)
    assert done.status == 1
    assert "line 3: " in done.err
    assert why in done.err
    assert counts(done)["chat"][0] == 2


def test_an_export_has_no_addresses_with_secrets_and_keeps_the_order_of_lists(folder: Path) -> None:
    data = folder / "data"
    data.mkdir()
    (data / "conduct.toml").write_text(f'[chats."{GROUP}"]\nnames = ["Nekro", "Ada"]\n')
    for name, value in (
        ("alerts.webhook_url", "https://hooks.example/T0/B1/quokka"),
        ("llm.proxy", "http://lin:numbat@proxy.example:8080"),
    ):
        assert nekro(folder, "set", name, value).status == 0
    lines = exported(folder)
    assert "quokka" not in str(lines)
    assert "numbat" not in str(lines)
    (policy,) = (each for each in lines if each["type"] == "policy")
    assert policy["value"] == ["Nekro", "Ada"]


@pytest.mark.long
@pytest.mark.slow
def test_an_import_overwrites_only_personas_of_which_it_has_a_newer_version(folder: Path) -> None:
    data = folder / "data"
    data.mkdir()
    (data / "conduct.toml").write_text(f'[chats."{GROUP}"]\npersona_name = "Owl"\n')
    nekro(folder, "set", "agent.language", "en")
    newer = line("persona", name="Heron", text="Speak of frogs.", saved=time.time())
    assert imported(folder, newer).status == 0
    done = imported(folder, example())
    assert done.status == 0
    assert counts(done) | {"x": ()} == {
        **dict.fromkeys(("setting", "persona", "policy"), (0, 0, 1, 0)),
        **dict.fromkeys(("account", "chat", "person", "note"), (1, 0, 0, 0)),
        "message": (2, 0, 0, 0),
        "x": (),
    }
    for number, word in ((2, "agent.language"), (3, "Heron"), (4, "persona_name")):
        assert re.search(rf"line {number}: .*{word}", done.err)
    found = {each["type"]: each for each in exported(folder)}
    assert found["setting"]["value"] == "en"
    assert found["persona"]["text"] == "Speak of frogs."
    assert found["policy"]["value"] == "Owl"
    # A newer version of a persona is taken, once.
    later = line("persona", name="Heron", text="Speak of fish.", saved=time.time() + 60)
    assert counts(imported(folder, later)) == {"persona": (1, 0, 0, 0)}
    assert counts(imported(folder, later)) == {"persona": (0, 1, 0, 0)}


def test_an_export_from_before_an_erasure_does_not_bring_the_erased_person_back(
    folder: Path,
) -> None:
    data = folder / "data"
    data.mkdir()
    secret = partial(kept_secret, data, "erased")
    ErasureMarks(data / MARKS, secret, lambda: 1_795_000_100.0).add("onebot_v11", "10001")
    private = line("chat", chat_key="onebot_v11-private_10001", name="Lin")
    about = line("note", chat_key=GROUP, text="10001 is fond of herons", since=1_794_000_000)
    policy = line("policy", table=["people", "onebot_v11:10001"], field="ignored", value=True)
    other = said("hello @Lin", 1_794_000_003.0, user_id="10002", id="m-3")
    named = said(
        "", 1_794_000_004.0, user_id="10002", segments=[{"type": "mention", "user_id": "10001"}]
    )
    done = imported(folder, example() + private + about + policy + other + named)
    assert done.status == 1
    assert counts(done) == {
        "setting": (1, 0, 0, 0),
        "persona": (1, 0, 0, 0),
        "policy": (1, 0, 0, 1),
        "account": (1, 0, 0, 0),
        "chat": (1, 0, 0, 1),
        "person": (0, 0, 0, 1),
        "note": (0, 0, 0, 2),
        "message": (2, 0, 0, 2),
    }
    text = json.dumps(exported(folder, "--messages"))
    assert "10001" not in text
    assert "two herons" not in text
    # An export that was made after the erasure is about somebody who came back.
    later = line("export", made=1_795_000_200) + line(
        "person", instance="onebot_v11", user_id="10001", name="Lin"
    )
    assert counts(imported(folder, later)) == {"person": (1, 0, 0, 0)}


def test_an_interrupted_import_is_continued_where_it_stopped(folder: Path) -> None:
    lines = [said(f"line {number}", 1000.0 + number // 3) for number in range(30)]
    assert counts(imported(folder, "".join(lines[:11]))) == {"message": (11, 0, 0, 0)}
    assert counts(imported(folder, "".join(lines))) == {"message": (19, 11, 0, 0)}
    found = [each["segments"] for each in exported(folder, "--messages") if "segments" in each]
    assert [each[0]["text"] for each in found] == [f"line {number}" for number in range(30)]  # type: ignore[index]


def test_no_messages_are_imported_into_a_chat_with_messages_of_its_own(folder: Path) -> None:
    assert imported(folder, said("of its own", 5000.0)).status == 0
    done = imported(folder, said("older", 4000.0) + said("elsewhere", 4000.0, "web-group_b"))
    assert counts(done) == {"message": (1, 0, 0, 1)}
    assert f"{GROUP} has messages of its own" in done.err


@pytest.mark.long
@pytest.mark.slow
def test_paths_and_addresses_of_media_are_neither_exported_nor_imported(folder: Path) -> None:
    media = {
        "path": "/etc/shadow",
        "url": "http://127.0.0.1/x",
        "name": "a.png",
        "mime": "image/png",
    }
    inner = {"sender_id": "1", "sender_name": "x", "segments": [{"type": "file", "media": media}]}
    segments = [{"type": "image", "media": media}, {"type": "forward", "messages": [inner]}]
    assert imported(folder, said("", 1.0, segments=segments)).status == 0
    database = (folder / "data/nekro.sqlite3").read_bytes()
    assert b"shadow" not in database
    assert b"127.0.0.1/x" not in database
    assert "a.png" in json.dumps(exported(folder, "--messages"))


@asynccontextmanager
async def running(folder: Path, model: ScriptedModelServer) -> AsyncIterator[BotProcess]:
    settings = {"NEKRO_LLM__BASE_URL": model.base_url, "NEKRO_LLM__MODEL": "m"}
    async with running_bot(folder, **settings) as bot:
        yield bot


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.jail
async def test_a_running_bot_exports_and_imports_all_but_messages(folder: Path) -> None:
    (folder / "lines.jsonl").write_text(example(), "utf-8")
    async with ScriptedModelServer(["hello"]) as model, running(folder, model):
        done = await nekro_meanwhile(folder, "import", "lines.jsonl")
        assert done.status == 1
        assert counts(done) == {**dict.fromkeys(EVERY, (1, 0, 0, 0)), "message": (0, 0, 0, 2)}
        assert "line 9: messages can be imported only while no bot runs" in done.err
        assert "language" in (await nekro_meanwhile(folder, "get", "agent.language")).out
        out = await nekro_meanwhile(folder, "export", "copy.jsonl", "--messages")
        assert (out.status, out.err) == (0, "")
        log = await nekro_meanwhile(folder, "operator", "audit.newest", "limit=5")
        entry = next(
            each for each in json.loads(log.out) if each["action"] == "transfer.import_lines"
        )
        assert "herons" not in log.out, "the audit log stays when people are erased"
        assert '"note":1' in entry["new"].replace(" ", "")
    types = [json.loads(each)["type"] for each in (folder / "copy.jsonl").read_text().splitlines()]
    assert {*EVERY} < {*types}


@pytest.mark.jail
async def test_imported_messages_are_not_answered_and_are_in_later_prompts(folder: Path) -> None:
    chat = "web-private_lin"
    lines = said("the bird is a heron", time.time() - 60, chat, user_id="lin", to_bot=True)
    assert imported(folder, lines).status == 0
    async with ScriptedModelServer(["a heron"]) as model, running(folder, model) as bot:
        await anyio.sleep(2)
        assert model.requests == []
        done = await nekro_meanwhile(folder, "chat", "--name", "lin", typed="which bird?\n")
        assert "a heron" in done.out, bot.log[-2000:]
        assert "the bird is a heron" in str(model.requests[-1].messages)
