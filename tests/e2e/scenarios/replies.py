"""Stores the replies of the model as readable TOML files, one file for each subject."""

import json
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("replies")
_HEAD = "# Replies to the scenarios of {}.py, written by somebody who saw only the request.\n"


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One reply. ``text`` is words or code. ``calls`` are native function calls, each with the keys
    ``name`` and ``args``. ``finish`` is the reason why the reply ended."""

    text: str = ""
    calls: tuple[dict[str, Any], ...] = ()
    finish: str = "stop"


def changed(reply: ModelReply, change: Callable[[str], str]) -> ModelReply:
    """Return a reply in which ``change`` has changed the text and the calls."""
    calls = json.loads(change(json.dumps(reply.calls, ensure_ascii=False)))
    return ModelReply(change(reply.text), tuple(calls), reply.finish)


ReplyKey = tuple[int, str]
"""The number of a scenario, and the letter of the wording. If the conversation depends on a random
result, the text after the letter names this result."""


def read_replies(subject: str, folder: Path = FOLDER) -> dict[ReplyKey, list[ModelReply]]:
    """Return the replies of a subject, in the order of the requests."""
    path = folder / f"{subject}.toml"
    found: dict[ReplyKey, list[ModelReply]] = defaultdict(list)
    rows = tomllib.loads(path.read_text("utf-8"))["reply"] if path.exists() else []
    for row in rows:
        calls = tuple(json.loads(row.get("calls", "[]")))
        reply = ModelReply(row.get("text", ""), calls, row.get("finish", "stop"))
        found[row["scenario"], row["wording"]].append(reply)
    return found


def write_replies(
    subject: str, replies: dict[ReplyKey, list[ModelReply]], folder: Path = FOLDER
) -> None:
    """Replace the file of a subject."""
    lines = [_HEAD.format(subject)]
    for (scenario, wording), some in sorted(replies.items()):
        for reply in some:
            lines += [*_row(scenario, wording, reply), ""]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{subject}.toml").write_text("\n".join(lines), "utf-8")


def _row(scenario: int, wording: str, reply: ModelReply) -> Iterator[str]:
    yield "[[reply]]"
    yield f"scenario = {scenario}"
    yield f'wording = "{wording}"'
    if reply.finish != "stop":
        yield f'finish = "{reply.finish}"'
    if reply.text:
        yield f"text = {_string(reply.text)}"
    if reply.calls:
        calls = ",\n ".join(json.dumps(call, ensure_ascii=False) for call in reply.calls)
        yield f"calls = {_string(f'[{calls}]')}"


def _string(text: str) -> str:
    """Return a text as a TOML string: unchanged if TOML allows it, else with escapes."""
    plain = all(sign.isprintable() or sign == "\n" for sign in text)
    if plain and "'''" not in text and not text.endswith("'"):
        return f"'''\n{text}'''"
    lines = [json.dumps(line, ensure_ascii=False)[1:-1] for line in text.split("\n")]
    return '"""\n' + "\n".join(lines) + '"""'
