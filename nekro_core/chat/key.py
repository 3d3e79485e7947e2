"""The name of a chat, its *chat key*.

A chat key has a text form, which is used in logs, database tables and tool arguments. Its
grammar::

    chat_key  = instance "-" kind "_" native [ "#" thread ]
    instance  = 1*( ALPHA / DIGIT / "_" / "." )
    kind      = "group" / "private" / "channel"
    native    = 1*visible        ; "%", "#", white space and controls as %XX of their UTF-8 bytes
    thread    = 1*visible        ; escaped in the same way

The text form is canonical: each key has only one text. So it can be a unique database column.
"""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self
from urllib.parse import quote, unquote

from pydantic_core import CoreSchema, core_schema

from nekro_core.system.errors import NekroError

MAX_KEY_LENGTH = 255
"""Maximum number of characters of the text form. All common databases allow a unique VARCHAR of
this length."""

_INSTANCE = re.compile(r"[A-Za-z0-9_.]+\Z")
_ESCAPE_THESE = re.compile(r"[%#\s\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_STRAY_PERCENT = re.compile(r"%(?![0-9A-F]{2})")
_FILE_NAME_SAFE = "-_."
_MAX_FILE_NAME = 120


class ChatKeyError(NekroError, ValueError):
    """A text is not a chat key, or the grammar does not allow a part of a key. The message says
    what was expected."""


class ChatKind(StrEnum):
    """The kinds of chats."""

    GROUP = "group"
    PRIVATE = "private"
    CHANNEL = "channel"


@dataclass(frozen=True, slots=True, order=True)
class ChatKey:
    """The name of a chat.

    Args:
        instance: The part that stands for the bot's account (``onebot_v11``, ``onebot_v11.20002``,
            ``web``): letters, digits, ``_`` and ``.``.
        kind: The kind of the chat.
        native_id: The platform's id of the chat, unescaped; not empty.
        thread: A thread in the chat, unescaped and not empty; None for the chat itself.

    Raises:
        ChatKeyError: The grammar forbids a part, or the text form is longer than 255 characters.
    """

    instance: str
    kind: ChatKind
    native_id: str
    thread: str | None = None

    def __post_init__(self) -> None:
        if not _INSTANCE.match(self.instance):
            raise ChatKeyError(
                f"instance {self.instance!r}: expected letters, digits, '_' and '.', at least one"
            )
        if not isinstance(self.kind, ChatKind):
            raise ChatKeyError(f"kind {self.kind!r}: expected one of {', '.join(ChatKind)}")
        _require_visible("native id", self.native_id)
        if self.thread is not None:
            _require_visible("thread", self.thread)
        if len(str(self)) > MAX_KEY_LENGTH:
            raise ChatKeyError(f"key of {len(str(self))} characters: at most {MAX_KEY_LENGTH}")

    def __str__(self) -> str:
        text = f"{self.instance}-{self.kind.value}_{_escape(self.native_id)}"
        return text if self.thread is None else f"{text}#{_escape(self.thread)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text form. Only the canonical spelling is accepted, so a chat has only one key.

        Args:
            text: The text form, for example ``onebot_v11-group_30003``.

        Returns:
            The key whose `str` is this text.

        Raises:
            ChatKeyError: The text is not a chat key, or not in canonical form.
        """
        instance, dash, rest = text.partition("-")
        kind_text, underscore, native = rest.partition("_")
        if not dash or not underscore:
            raise ChatKeyError(
                f"{text!r} is no chat key: expected '<instance>-<kind>_<id>', "
                "for example 'onebot_v11-group_30003'"
            )
        try:
            kind = ChatKind(kind_text)
        except ValueError:
            raise ChatKeyError(
                f"{text!r}: kind {kind_text!r}, expected one of {', '.join(ChatKind)}"
            ) from None
        native, hash_sign, thread = native.partition("#")
        key = cls(instance, kind, _unescape(native), _unescape(thread) if hash_sign else None)
        if str(key) != text:
            raise ChatKeyError(f"{text!r} is not in canonical form: write {str(key)!r}")
        return key

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        """Let pydantic read the text form and write it as JSON."""
        return core_schema.no_info_plain_validator_function(
            cls._of_text,
            json_schema_input_schema=core_schema.str_schema(max_length=MAX_KEY_LENGTH),
            serialization=core_schema.plain_serializer_function_ser_schema(
                str, return_schema=core_schema.str_schema()
            ),
        )

    @classmethod
    def _of_text(cls, value: Any) -> Self:
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise ChatKeyError(f"a chat key is a text, not {type(value).__name__}")
        return cls.parse(value)

    @property
    def file_name(self) -> str:
        """A name for this chat's folder. It has at most 120 characters, all portable. Two chats
        never have the same name."""
        name = quote(str(self), safe=_FILE_NAME_SAFE)
        # Some names get a digest after "~". A name gets one if it is too long, or if it has capital
        # letters, because some file systems do not distinguish these from small letters. A name
        # that already has "~" gets one too, because otherwise it could equal a name with a digest.
        if len(name) <= _MAX_FILE_NAME and name == name.lower() and "~" not in name:
            return name
        digest = hashlib.sha256(str(self).encode()).hexdigest()[:16]
        return f"{name.lower()[: _MAX_FILE_NAME - 17]}~{digest}"


def _require_visible(part: str, value: str) -> None:
    if not value:
        raise ChatKeyError(f"{part} is empty")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ChatKeyError(f"{part} {value!r} is no valid Unicode text") from None


def _escape(value: str) -> str:
    return _ESCAPE_THESE.sub(lambda found: quote(found.group(), safe=""), value)


def _unescape(value: str) -> str:
    if _STRAY_PERCENT.search(value):
        raise ChatKeyError(f"{value!r}: '%' must be followed by two upper-case hex digits")
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise ChatKeyError(f"{value!r} does not unescape to UTF-8") from None
