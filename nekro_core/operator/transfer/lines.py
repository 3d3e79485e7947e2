"""The lines of an export: one JSON object each, with a ``type`` and a ``version``.

A line that this version does not know is refused and not guessed at. A new field needs a new
version of its type, because an older bot would otherwise leave it out without a word.
"""

import json
from typing import Any

import msgspec

from nekro_core.system.errors import NekroError

VERSION = 1
MAX_LINE = 1_000_000
"""Maximum number of characters of a line. The longest message of a platform with its quoted
messages is far shorter."""
_MAX_DEPTH = 40
"""How deep the values of a line may be nested: a forwarded message may contain forwarded ones."""


class LineRefused(NekroError):
    """A line cannot be imported. The text says what came and what was expected."""


class _Line(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True
):
    version: int


class ExportHead(_Line, frozen=True, kw_only=True, tag="export"):
    """The first line. ``made`` is the time of the export, in seconds since 1970: people who were
    erased later are not imported again. ``by`` is the program that wrote the file."""

    made: float
    by: str = ""


class ExportedSetting(_Line, frozen=True, kw_only=True, tag="setting"):
    """A setting that is set, and is no secret. ``name`` is as in ``settings.toml``."""

    name: str
    value: Any


class ExportedPersona(_Line, frozen=True, kw_only=True, tag="persona"):
    """A persona of the library, in its newest version."""

    name: str
    text: str
    saved: float = 0.0


class ExportedPolicy(_Line, frozen=True, kw_only=True, tag="policy"):
    """One field of a table of ``conduct.toml``. ``table`` is ``["chats", "web-private_lin"]``."""

    table: tuple[str, ...]
    field: str
    value: Any


class ExportedAccount(_Line, frozen=True, kw_only=True, tag="account"):
    """An account of the bot, and the instance in the keys of its chats."""

    adapter: str
    account: str
    instance: str


class ExportedChat(_Line, frozen=True, kw_only=True, tag="chat"):
    """A chat. ``name`` is what the platform calls it."""

    chat_key: str
    name: str = ""


class ExportedPerson(_Line, frozen=True, kw_only=True, tag="person"):
    """A person whom the bot knows from the chats of an instance."""

    instance: str
    user_id: str
    name: str = ""


class ExportedNote(_Line, frozen=True, kw_only=True, tag="note"):
    """A note of the memory, with the fields of ``nekro memory export``."""

    chat_key: str
    text: str
    about_id: str = ""
    about_name: str = ""
    said_by: str = ""
    kind: str = ""
    since: float = 0.0
    until: float = 0.0


class ExportedMessage(_Line, frozen=True, kw_only=True, tag="message"):
    """A line of a chat's history. ``id`` distinguishes it from all other messages of the instance.
    A line without ``id`` is recognized by its chat, time, author and content."""

    chat_key: str
    time: float
    author: str
    segments: list[Any]
    id: str = ""
    message_id: str = ""
    user_id: str = ""
    user_name: str = ""
    role: str = ""
    to_bot: bool = False
    recalled: bool = False


ExportLine = (
    ExportHead
    | ExportedSetting
    | ExportedPersona
    | ExportedPolicy
    | ExportedAccount
    | ExportedChat
    | ExportedPerson
    | ExportedNote
    | ExportedMessage
)
TYPES: dict[str, type[ExportLine]] = {
    "export": ExportHead,
    "setting": ExportedSetting,
    "persona": ExportedPersona,
    "policy": ExportedPolicy,
    "account": ExportedAccount,
    "chat": ExportedChat,
    "person": ExportedPerson,
    "note": ExportedNote,
    "message": ExportedMessage,
}


def read_line(text: str) -> ExportLine:
    """Read a line. Raises `LineRefused`."""
    if len(text) > MAX_LINE:
        raise LineRefused(f"it has {len(text)} characters; at most {MAX_LINE}")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise LineRefused("it is no JSON") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("type"), str):
        raise LineRefused('it is no JSON object with a "type"')
    kind = TYPES.get(fields["type"])
    if kind is None:
        raise LineRefused(f"type {fields['type'][:40]!r}: known are {', '.join(TYPES)}")
    if fields.get("version") != VERSION or isinstance(fields["version"], bool):
        raise LineRefused(
            f"version {str(fields.get('version'))[:20]} of {fields['type']}: this bot knows "
            f"version {VERSION}. Was the file written by a newer version?"
        )
    if _depth(fields) > _MAX_DEPTH:
        raise LineRefused(f"its values are nested more than {_MAX_DEPTH} deep")
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise LineRefused(f"{fields['type']}: {error}") from None


def write_line(line: ExportLine) -> str:
    """Write a line, with a line feed at its end. Empty fields are left out."""
    fields = {
        name: value
        for name, value in msgspec.to_builtins(line).items()
        if value not in ("", 0.0, False) or name in ("value", "version")
    }
    return json.dumps(fields, ensure_ascii=False) + "\n"


def _depth(value: object) -> int:
    """Return how deep a value is nested, at most one more than is allowed."""
    level: list[object] = [value]
    for depth in range(_MAX_DEPTH + 2):
        level = [
            inner
            for each in level
            for inner in (
                each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
            )
        ]
        if not level:
            return depth
    return _MAX_DEPTH + 1
