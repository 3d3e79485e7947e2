"""A page in ``docs/wire`` shows the calls and events of a stage. The test of the conversation
writes it.

``WRITE_DOCS=1 make long ARGS="-k one_conversation"`` writes the page. Every other run compares it
with the wire: both must have the same kinds of lines with the same fields.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

from tests.e2e.stages.stage import Stage, WireLine

FOLDER = Path(__file__).parents[3] / "docs" / "wire"
_LONGEST = 100
"""If a text has more characters than this, it is cut to half of this number."""
_WIDTH = 120
_ENTRY = re.compile(
    r"^(?P<arrow>[⬅➡]) `(?P<what>[^`\n]+)`\n\n```json\n(?P<body>.+?)\n```$",
    re.MULTILINE | re.DOTALL,
)
_KINDS = {"type", "msgtype", "action", "message_type", "kind"}
"""Fields whose values say which kind of object it is."""
_ABOUT = """\
# The wire of {title}

One conversation as it went over the wire: a text with a mention and a reply, a picture, a voice, a
file and a long text, in both directions. ➡ is to the bot, ⬅ is from it. Long texts are cut, and
what looks like something before it is left out. Written by `tests/e2e/test_one_conversation.py`.
"""


def check_page(stage: Stage) -> None:
    """Compare the wire with the page, or write the page if ``WRITE_DOCS`` is set."""
    path = FOLDER / f"{stage.name}.md"
    entries: dict[tuple[bool, str, str], WireLine] = {}
    for line in stage.wire:
        entries.setdefault(_shape(line.to_bot, line.what, line.body), line)
    if os.environ.get("WRITE_DOCS"):
        parts = [_ABOUT.format(title=stage.title)]
        parts += [f"Not played: {part} ({why}).\n" for part, why in stage.cannot.items()]
        for line in entries.values():
            arrow = "➡" if line.to_bot else "⬅"
            parts.append(f"{arrow} `{line.what}`\n\n```json\n{_shown(_cut(line.body))}\n```\n")
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(parts))
    page = path.read_text() if path.exists() else ""
    there = {
        _shape(found["arrow"] == "➡", found["what"], json.loads(found["body"]))
        for found in _ENTRY.finditer(page)
    }
    again = f'make {path.name} again: WRITE_DOCS=1 make long ARGS="-k one_conversation"'
    assert there == entries.keys(), again


def _shape(to_bot: bool, what: str, body: Any) -> tuple[bool, str, str]:
    return to_bot, what, json.dumps(_fields(body))


def _fields(value: Any) -> Any:
    """The shape of a value: the names of its fields, and the values of the fields in `_KINDS`."""
    match value:
        case dict():
            return {k: v if k in _KINDS else _fields(v) for k, v in sorted(value.items())}
        case list():
            return sorted({json.dumps(_fields(each)) for each in value})
    return ""


def _cut(value: Any) -> Any:
    match value:
        case dict():
            return {key: _cut(each) for key, each in value.items()}
        case list():
            return [_cut(each) for each in value]
        case str() if len(value) > _LONGEST:
            return f"{value[: _LONGEST // 2]}... ({len(value)} characters)"
    return value


def _shown(value: Any, indent: str = "") -> str:
    """JSON in which a value takes one line if it fits."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= _WIDTH or not isinstance(value, dict | list):
        return line
    deeper = f"{indent}  "
    if isinstance(value, list):
        inner = [_shown(each, deeper) for each in value]
        first, last = "[", "]"
    else:
        inner = [f"{json.dumps(key)}: {_shown(each, deeper)}" for key, each in value.items()]
        first, last = "{", "}"
    lines = ",\n".join(f"{deeper}{each}" for each in inner)
    return f"{first}\n{lines}\n{indent}{last}"
