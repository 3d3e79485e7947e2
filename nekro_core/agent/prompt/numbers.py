"""The numbers of messages in prompts: ``#311`` is the record with the sequence number 311.

Prompts, functions and their results name messages by these numbers. The ids that platforms give to
messages are longer, and models make mistakes when they copy them.
"""

import re
from unicodedata import normalize

from nekro_core.chat import Record

_NUMBER = re.compile(r"#?\s*(\d{1,15})")


def number_of(record: Record) -> str:
    """Return the number under which prompts show a record."""
    return f"#{record.seq}"


def seq_of(text: str) -> int | None:
    """Read a number as a model writes it: ``#311`` or ``311``, also with full-width characters.
    Return None if the text is not a number."""
    found = _NUMBER.fullmatch(normalize("NFKC", text[:40]).strip())
    return int(found[1]) if found else None
