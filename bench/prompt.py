"""Measures what a prompt costs: how many tokens its parts have, how much of the prompt is the same
as in the turn before, and how long it takes to write the prompt.

The tokens are those of o200k, the vocabulary of large models. The conversations are in
`bench/conversations`. The figure of the history compares the number of tokens of the same messages
in two forms: the present form, and the form that was in use until November 2026.
"""

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path

from bench.figure import Figure, percentiles
from nekro_core.agent.prompt.chat_place import ChatPlace, SandboxFacts
from nekro_core.agent.prompt.functions import function_set, tools_text
from nekro_core.agent.prompt.line_marks import window_marks
from nekro_core.agent.prompt.lines import LINE_FORMS
from nekro_core.agent.prompt.prompt import PromptView, build_prompt
from nekro_core.agent.prompt.system_prompt import native_system_prompt, system_prompt
from nekro_core.agent.prompt.window import HistoryWindows
from nekro_core.agent.prompt.written_window import WrittenWindows
from nekro_core.agent.settings import PromptSettings
from nekro_core.agent.turn.history_window import in_window
from nekro_core.chat import Author, ChatKey, Record, Sender, Text, decode_segments, plain_text
from nekro_core.cli.plugin_kit.check_report import token_counter
from nekro_core.llm.model import ChatRequest, ModelProfile, TextPart
from nekro_core.llm.tokens import function_text
from nekro_core.plugins.host.builtin import builtin_folder
from nekro_core.store import Store
from nekro_core.tools.names import ToolSet
from tests.plugins.world import GROUP as WORLD_GROUP
from tests.plugins.world import World

TURNS = 40
"""Number of turns whose prompt is compared with the prompt of the turn before."""
_BEFORE = 20
"""Number of turns before the compared ones. They make the history as long as in a chat that is in
use."""
_CODE_EVERY = 4
"""Every fourth turn of the bot ran code that printed something. The other turns sent words."""
_WRITTEN = 200
"""How often a prompt is written for measuring the time."""
_FOLDER = Path(__file__).parent / "conversations"
_CHAT = ChatKey.parse("onebot_v11-group_30003")
_OWN = "20002"
_STAND_IN = "ActionParsnip"
_BEGIN = 1_764_000_000.0
_PROFILE = ModelProfile(name="large", context_tokens=128_000)
_PACKAGES = (
    "numpy",
    "pandas",
    "Pillow",
    "matplotlib",
    "openpyxl",
    "pypdf",
    "docx",
    "lxml",
    "sympy",
)
_CODE = """\
import json, math
points = [(3.1, 4.2), (5.9, 2.6), (5.3, 5.8), (9.7, 9.3)]
lengths = [math.dist(a, b) for a, b in zip(points, points[1:])]
print(json.dumps({"lengths": lengths, "sum": sum(lengths)}))
"""
_OUTPUT = '{"lengths": [3.225, 3.256, 5.622], "sum": 12.1}\n'
_count = token_counter().count


async def figures() -> list[Figure]:
    """Return the number of tokens of the rules, the history and the functions, the unchanged share,
    and the time."""
    with tempfile.TemporaryDirectory() as folder:
        async with World(Path(folder)).bot(builtin=builtin_folder("plugins")) as registry:
            tools = registry.tools_for(WORLD_GROUP)
    found = [*_rules(), *_functions(tools)]
    for name, records in (("English", _irc()), ("Chinese, media", _group_zh())):
        found.append(_history_share(name, records))
    prefix, times = await _prefix_and_times(tools)
    return [*found, prefix, *times]


def _rules() -> Iterator[Figure]:
    sandbox = SandboxFacts(python="3.12", packages=_PACKAGES)
    code = system_prompt("", names=(), persona="", sandbox=sandbox).partition("\n\nFunctions:")[0]
    native = native_system_prompt(names=(), persona="", sandbox=sandbox)
    for name, text in (("code mode", code), ("tool mode", native)):
        yield Figure(name=f"rules, {name}", unit="tokens", p50=_count(text), target=480)


def _functions(tools: ToolSet) -> Iterator[Figure]:
    text, native = tools_text(tools), function_set(tools).offered
    yield Figure(
        name=f"functions of the built-in plugins, {len(native)}, code mode",
        unit="tokens",
        p50=_count(text),
        target=1700,
        floor=sum(_count(each.name) for each in native),
        floor_name="their names",
    )
    yield Figure(
        name="the same as JSON, tool mode",
        unit="tokens",
        p50=sum(_count(function_text(each)) for each in native),
        floor=sum(_count(each.name) for each in native),
        floor_name="their names",
    )


def _history_share(name: str, records: Sequence[Record]) -> Figure:
    """Return the tokens of a history in the present form, in percent of its tokens in the form that
    was in use until November 2026."""
    asked = {records[-1].seq}
    marks = window_marks(records, zone=UTC, own=[_OWN], unanswered=asked)
    before = "\n".join(
        LINE_FORMS[1](each, UTC, 3000, int(each.seq in asked), (_OWN,)) for each in records
    )
    lines = (
        LINE_FORMS[2](each, UTC, 3000, mark, (_OWN,))
        for each, mark in zip(records, marks, strict=True)
    )
    now = "\n".join(lines)
    words = sum(
        _count(part.text) for each in records for part in each.segments if isinstance(part, Text)
    )
    return Figure(
        name=f"history of {len(records)} messages, {name}",
        unit="% of before",
        p50=100 * _count(now) / _count(before),
        target=55,
        floor=100 * words / _count(before),
        floor_name="the words alone",
    )


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn of the conversation: the records so far, and the record that the bot answers."""

    records: Sequence[Record]
    question: Record


async def _prefix_and_times(tools: ToolSet) -> tuple[Figure, list[Figure]]:
    system = system_prompt(
        tools.once(tools_text),
        names=("Nekro",),
        persona="",
        place=ChatPlace(chat_key=_CHAT, platform="onebot_v11", name="Ubuntu", own=[_OWN], zone=UTC),
        sandbox=SandboxFacts(python="3.12", packages=_PACKAGES),
    )
    settings = PromptSettings()
    async with Store.open("sqlite://:memory:") as store:
        records = _irc()
        await _store_runs(store, records)
        windows, written, texts, first = HistoryWindows(), WrittenWindows(), [], []
        seconds: list[float] = []
        for turn in [*_turns(records)][: _BEFORE + TURNS]:
            since = windows.of(_CHAT).begin
            view = _view(replace(turn, records=[r for r in turn.records if r.seq >= since]))
            began = time.perf_counter()
            shown = await in_window(
                view,
                runs=store.runs,
                windows=windows,
                written=written,
                settings=settings,
                profile=_PROFILE,
            )
            request = build_prompt(
                system, shown, settings=settings, profile=_PROFILE, max_tokens=4096
            )
            seconds.append(time.perf_counter() - began)
            texts.append(_text(request))
            first.append(shown.records[0].seq)
    jumps = len(set(first[_BEFORE:])) - 1
    same = total = 0
    for before, now in zip(texts[_BEFORE - 1 :], texts[_BEFORE:], strict=False):
        same += _count(now[: _common(before, now)])
        total += _count(now)
    prefix = Figure(
        name=f"unchanged prefix of {TURNS} prompts, {jumps} jumps",
        unit="%",
        p50=100 * same / total,
        target=92,
        more_is_better=True,
        floor=100 * _count(system) * TURNS / total,
        floor_name=f"rules and functions alone; a prompt has {total // TURNS:,} tokens",
    )
    return prefix, [_time_figure(seconds[_BEFORE:], texts[-1])]


def _time_figure(seconds: Sequence[float], text: str) -> Figure:
    """Compare the time of writing a prompt with the time of joining its lines, which every
    implementation needs."""
    lines = text.split("\n")
    floors = []
    for _ in range(_WRITTEN):
        began = time.perf_counter()
        json.dumps("\n".join(lines))
        floors.append((time.perf_counter() - began) * 1000)
    samples = [each * 1000 for each in seconds]
    floor = percentiles(floors)[0]
    return Figure.of("window and text of a prompt", "ms", samples, floor, "its lines as JSON")


def _text(request: ChatRequest) -> str:
    return "\n".join(
        part.text
        for message in request.messages
        for part in message.parts
        if isinstance(part, TextPart)
    )


def _common(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _view(turn: _Turn) -> PromptView:
    return PromptView(
        chat_key=_CHAT,
        records=turn.records,
        unanswered={turn.question.seq},
        run_ids=(),
        steps=(),
        own_accounts={_OWN},
        now=turn.question.time,
        zone=UTC,
        pictures={},
        asker=turn.question.sender,
        reasons={turn.question.seq: "addressed"},
    )


def _turns(records: Sequence[Record]) -> Iterator[_Turn]:
    """Yield the records that the bot was shown before each of its messages."""
    for index, record in enumerate(records):
        if record.author is Author.BOT and index and records[index - 1].author is Author.PERSON:
            yield _Turn(records[:index], records[index - 1])


async def _store_runs(store: Store, records: Sequence[Record]) -> None:
    """Store the code runs that sent the bot's messages."""
    own = [record for record in records if record.author is Author.BOT]
    for number, record in enumerate(own, 1):
        code = _CODE if number % _CODE_EVERY == 0 else "send_channel_message('so')"
        output = _OUTPUT if code is _CODE else ""
        await store.runs.begin(record.run_id, _CHAT, code=code, turn_id=number)
        await store.runs.end(record.run_id, output=output, stop="finished", seconds=0.1)


def _irc() -> list[Record]:
    """Return the conversation of `ubuntu_irc.jsonl`. One person of it plays the bot. Successive
    lines of this person become one message of the bot. The message before each of these messages
    counts as written to the bot."""
    rows = [json.loads(line) for line in (_FOLDER / "ubuntu_irc.jsonl").read_text().splitlines()]
    found: list[Record] = []
    for minute, name, words in rows:
        own = name == _STAND_IN
        if own and found and found[-1].author is Author.BOT:
            before = found.pop()
            words = f"{plain_text(before.segments)}\n{words}"  # noqa: PLW2901
        seq = 7_001 + len(found)
        found.append(
            Record(
                chat_key=_CHAT,
                seq=seq,
                author=Author.BOT if own else Author.PERSON,
                segments=(Text(words),),
                time=_BEGIN + minute * 60,
                message_id=f"{1_640_000_000 + seq * 37}",
                sender=Sender("") if own else Sender(_id_of(name), name),
                run_id=f"run{seq}" if own else "",
            )
        )
    return found


def _group_zh() -> list[Record]:
    """Return the conversation of `group_zh.jsonl`."""
    rows = [json.loads(line) for line in (_FOLDER / "group_zh.jsonl").read_text().splitlines()]
    return [
        Record(
            chat_key=_CHAT,
            seq=301 + number,
            author=Author.PERSON if user else Author.BOT,
            segments=decode_segments(json.dumps(segments)),
            time=_BEGIN + minute * 60,
            message_id=f"m{number}",
            sender=Sender(user, name) if user else Sender(""),
            to_bot=any(each.get("user_id") == _OWN for each in segments),
        )
        for number, (minute, name, user, segments) in enumerate(rows)
    ]


def _id_of(name: str) -> str:
    """Return an id with as many digits as a QQ number."""
    return str(
        100_000_000 + sum(ord(letter) * 31**place for place, letter in enumerate(name)) % 10**8
    )
