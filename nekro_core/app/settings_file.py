"""Reads and edits the text of ``data/settings.toml`` and ``data/secrets.toml``.

The names are those of the environment without ``NEKRO_``, in tables: ``NEKRO_LLM__BASE_URL`` is
``base_url`` in the table ``[llm]``. ``HOST``, ``PORT``, ``SUPERUSERS`` and ``COMMAND_START`` stand
above the first table. The adapters' own settings are in ``[adapters]``, and other settings of
NoneBot and its plugins in ``[nonebot]``. An edit keeps the comments, the order and the other
settings.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nekro_core.system.errors import NekroError

SETTINGS = "settings.toml"
SECRETS = "secrets.toml"
PREFIX = "nekro_"
FREE_TABLES = ("adapters", "nonebot")
"""Tables in which any name may stand: the settings of adapters, and those of NoneBot and its
plugins. No class of the bot declares these names."""

HEAD = """\
# The settings of the bot, which reads this file again when it is saved. `nekro get` lists all
# settings, and `nekro set NAME VALUE` writes here. The environment and .env win over this file.
"""
SECRETS_HEAD = """\
# Keys, tokens and passwords, under the same names as in settings.toml. Nothing shows these values.
"""
_HEADER = re.compile(r"\s*\[\[?\s*(.+?)\s*\]\]?\s*(#.*)?")
_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_KEY = re.compile(rf"\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*=")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"([^"]*)"|'([^']*)'""")

Path = tuple[str, ...]


class TomlFault(NekroError, ValueError):
    """A text is not TOML. ``line`` is the number of the wrong line, if it is known."""

    def __init__(self, problem: str, line: int | None) -> None:
        super().__init__(problem)
        self.line = line


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a text. Raises `TomlFault`."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        at_end = "at end of document" in str(error)
        line = int(found[1]) if found else len(text.splitlines()) if at_end else None
        problem = re.sub(r" \(at .*\)$", "", str(error))
        raise TomlFault(problem, line) from None


def line_of(text: str, path: Sequence[str]) -> int | None:
    """Return the number of the line that sets a name. If there is no such line, return the line of
    the innermost table or value that contains the name. Return None if this line does not exist
    either."""
    best: tuple[int, int] | None = None
    for number, found in _lines_with_names(text):
        depth = len(found)
        if tuple(path[:depth]) == found and (best is None or depth > best[0]):
            best = depth, number
    return best[1] if best else None


def with_value(text: str, path: Path, value: Any, comment: str = "") -> str:
    """Return the text in which a name has this value. A new name is added at the end of its table,
    with ``comment`` in the line above it. Raises `ValueError` if a value is where a table must
    be."""
    import tomlkit  # noqa: PLC0415 - this import takes 20 ms; only a write needs it

    document = tomlkit.parse(text)
    table: Any = document
    for place, name in enumerate(path[:-1]):
        table = table.get(name, {})
        if not isinstance(table, Mapping):
            problem = f"{'.'.join(path[: place + 1])} is a value and not a table"
            raise ValueError(problem)  # noqa: TRY004 - the operator's text is wrong, no type
    if path[-1] not in table:
        added = _with_new_line(text, path, value, comment)
        try:
            parse_toml(added)
        except TomlFault:
            pass  # The table is written inline: { ... }
        else:
            return added
    table = document
    for name in path[:-1]:
        if name not in table:
            table[name] = tomlkit.inline_table()
        table = table[name]
    table[path[-1]] = _inline(value)
    return tomlkit.dumps(document)


def without_value(text: str, path: Path, comment: str = "") -> str:
    """Return the text without a value, and without the ``comment`` that `with_value` wrote above
    it. If its table then has no values and no comments, the table is removed too. If the text does
    not have the name, the text is returned without changes."""
    import tomlkit  # noqa: PLC0415 - as above

    document = tomlkit.parse(text)
    table: Any = document
    around = []
    for name in path[:-1]:
        around.append(table)
        table = table.get(name)
        if not isinstance(table, Mapping):
            return text
    if path[-1] not in table:
        return text
    line = next((number for number, found in _lines_with_names(text) if found == path), 1)
    lines = text.splitlines(keepends=True)
    if comment and line > 1 and lines[line - 2].strip() == f"# {comment}":
        del lines[line - 2]
        return without_value("".join(lines), path)
    del table[path[-1]]
    for outer, name in zip(reversed(around), reversed(path[:-1]), strict=True):
        inner = outer[name]
        written_at_once = isinstance(inner, tomlkit.items.Table | tomlkit.items.InlineTable)
        if not written_at_once or inner.as_string().strip(" \t\r\n{}"):
            break
        del outer[name]
    return tomlkit.dumps(document)


def _inline(value: Any) -> Any:
    """Return a value in a form that is written on one line and does not begin a table."""
    import tomlkit  # noqa: PLC0415 - as above

    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        table.update({key: _inline(each) for key, each in value.items()})
        return table
    if isinstance(value, list | tuple):
        array = tomlkit.array()
        array.extend(_inline(each) for each in value)
        return array
    return tomlkit.item(value)


def _with_new_line(text: str, path: Path, value: Any, comment: str) -> str:
    import tomlkit  # noqa: PLC0415 - as above

    entry = tomlkit.document()
    if comment:
        entry.add(tomlkit.comment(comment))
    entry.add(path[-1], _inline(value))
    new = tomlkit.dumps(entry)
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    headers = [*_lines_with_names(text, headers_only=True)]
    starts = [number for number, found in headers if found == path[:-1]]
    if len(path) > 1 and not starts:
        inner = tomlkit.key(path[:-1]).as_string()
        gap = "\n" if lines and lines[-1].strip() else ""
        return "".join(lines) + f"{gap}[{inner}]\n" + new
    begin = starts[0] if starts else _after_head(lines)
    end = next((number - 1 for number, _ in headers if number > begin), len(lines))
    # Blank lines and comments directly above the next table belong to that table.
    while end > begin and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    after = "".join(lines[end:])
    gap = "\n" if after and after.strip() and not after.startswith("\n") else ""
    return "".join(lines[:end]) + new + gap + after


def _after_head(lines: Sequence[str]) -> int:
    """Return the number of lines of the comment at the beginning of the file, including the blank
    line after it."""
    head = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return head + 1 if head and head < len(lines) and not lines[head].strip() else head


def _lines_with_names(text: str, *, headers_only: bool = False) -> Iterator[tuple[int, Path]]:
    """Yield each line that begins a table or sets a name, with the path of names from the top."""
    table: Path = ()
    inside = ""  # the quotes of a multi-line text that contains the line
    for number, line in enumerate(text.splitlines(), 1):
        if inside:
            if inside in line:
                inside = ""
            continue
        if header := _HEADER.fullmatch(line):
            table = _parts(header[1])
            yield number, table
        elif key := _KEY.match(line):
            if not headers_only:
                yield number, (*table, *_parts(key[1]))
            rest = line[key.end() :]
            inside = next((q for q in ('"""', "'''") if rest.count(q) == 1), "")


def _parts(written: str) -> Path:
    return tuple(next(filter(None, (m[1], m[2], m[0]))) for m in _PART.finditer(written))
