"""Describes what a model was shown, so that the request can be made again byte for byte.

A recipe has the form of the request's JSON body. Its texts are cut into pieces. A line of the
history is stored as the record's number and a short hash of the line. A text that is not a record
is stored once as a part (`nekro_core.store.prompts`), and the recipe contains the hash of the part.
A short text that the program wrote is in the recipe itself. The only words of people in a recipe
are the names of chats, so an erasure of a person changes little in it (see `erased`).

The structures are stored as JSON arrays. To add a field, add it at the end with a default. An older
version of the bot then refuses to read the recipe. It does not know the field, so it could not make
the same request again.
"""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from itertools import accumulate

import msgspec

LINE_HASH = 4
"""Number of characters of a line's hash: 24 bits. The hash only has to tell whether a record has
changed since the prompt."""
_GONE = "." * LINE_HASH


class Inline(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="w"):
    """A text that the program wrote. Its only words of people are the name of the chat."""

    text: str
    kind: str = ""


class PartRef(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="p"):
    """A text that is stored as a part. ``kind`` is the section, for example ``rules``."""

    hash: str
    kind: str = ""


class RecordLines(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="h"
):
    """Lines of the history, joined by line ends. ``limit`` is the maximum number of characters of a
    message. ``steps`` has the first record's number, and then the difference from each record's
    number to the next. ``marks`` says which lines were marked, and how. The bit with the value 1
    means a record that the turn answers, the bit with the value 2 one that another turn will
    answer. Since form 2 there are more bits (see `nekro_core.agent.prompt.line_marks`)."""

    limit: int
    steps: list[int]
    hashes: str
    marks: dict[int, int] = {}

    @property
    def seqs(self) -> list[int]:
        """The records' numbers."""
        return list(accumulate(self.steps))

    def lines(self) -> Iterator[tuple[int, str, int]]:
        """Yield each line's record number, hash (empty if the record was erased) and mark."""
        for index, seq in enumerate(self.seqs):
            digest = self.hashes[index * LINE_HASH : (index + 1) * LINE_HASH]
            yield seq, "" if digest == _GONE else digest, self.marks.get(index, 0)


class ReplyText(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="r"):
    """The first ``length`` characters of the reply of an earlier step of the same turn. ``hash`` is
    the `line_hash` of these characters."""

    position: int
    length: int
    hash: str


Piece = Inline | PartRef | RecordLines | ReplyText


class RecipeText(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="t"):
    """A text."""

    pieces: list[Piece]


class RecipeMedium(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="m"
):
    """A picture. ``hash`` is the hash of its address in the request. A picture of the history is
    medium number ``index`` of the record ``seq``. Any other picture is stored as the part with the
    name ``hash``."""

    hash: str
    seq: int = 0
    index: int = 0


class RecipeJson(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="j"):
    """Any other content. Its JSON is stored as the part with the name ``hash``."""

    hash: str


class RecipeMessage(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One message. ``form`` is the form of its content: ``text``, ``list`` or ``null``. ``rest`` is
    the text of a JSON object with the message's other fields; empty if it has none."""

    role: str
    form: str
    content: list[RecipeText | RecipeMedium | RecipeJson]
    rest: list[Piece] = []


class Recipe(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A request. ``lines`` is the version of the lines' form (`nekro_core.agent.prompt.lines`).
    ``frame`` names the part with the JSON body without messages and tools. ``tools`` names the part
    with the tools; it is empty if there are none. Times in lines are in the time zone ``zone`` (an
    IANA name). If ``zone`` is empty, they are in the machine's zone, which was ``offset`` seconds
    east of UTC. ``own`` has the ids of the bot's accounts."""

    lines: int
    frame: str
    tools: str
    zone: str
    offset: int
    own: list[str]
    messages: list[RecipeMessage]

    def encode(self) -> str:
        """Return the recipe as JSON."""
        return msgspec.json.encode(self).decode()

    def pieces(self) -> Iterator[Piece]:
        """Yield all pieces of text."""
        for message in self.messages:
            for content in message.content:
                if isinstance(content, RecipeText):
                    yield from content.pieces
            yield from message.rest

    @property
    def seqs(self) -> set[int]:
        """The numbers of all records that the request shows."""
        return {
            seq for piece in self.pieces() if isinstance(piece, RecordLines) for seq in piece.seqs
        }


_decoder = msgspec.json.Decoder(Recipe)


def decode_recipe(text: str) -> Recipe | None:
    """Read a stored recipe; None if this version of the bot cannot read it, for example because a
    newer version wrote it."""
    try:
        return _decoder.decode(text)
    except msgspec.MsgspecError:
        return None


def line_hash(line: str) -> str:
    """Return the short hash of a line."""
    return part_hash("", line.encode("utf-8", "replace"))[:LINE_HASH]


def part_hash(chat_key: str, data: bytes) -> str:
    """Return the name of a part of a chat's prompts; ``chat_key`` is empty for a part of all chats'
    prompts. If two chats have the same text, there are two parts with two names. So an erasure in
    one chat does not change the other chat."""
    key = chat_key.encode("utf-8", "replace")
    if len(key) > hashlib.blake2b.MAX_KEY_SIZE:
        key = hashlib.blake2b(key).digest()
    digest = hashlib.blake2b(data, digest_size=12, key=key)
    return urlsafe_b64encode(digest.digest()).decode()


cached_line_hash = lru_cache(4096)(line_hash)
"""`line_hash` with a cache, since most lines of a prompt were in the previous prompt too."""


def erased(recipe: Recipe, gone: Collection[int], redact: Callable[[str], str]) -> Recipe:
    """Return the recipe without the hashes of the lines of the records ``gone``. ``redact`` is
    applied to the texts that the program wrote."""

    def piece_of(piece: Piece) -> Piece:
        match piece:
            case RecordLines():
                kept = (digest if seq not in gone else _GONE for seq, digest, _ in piece.lines())
                hashes = "".join(digest or _GONE for digest in kept)
                return msgspec.structs.replace(piece, hashes=hashes)
            case Inline():
                return msgspec.structs.replace(piece, text=redact(piece.text))
        return piece

    messages = []
    for message in recipe.messages:
        content = [
            RecipeText(list(map(piece_of, each.pieces))) if isinstance(each, RecipeText) else each
            for each in message.content
        ]
        rest = list(map(piece_of, message.rest))
        messages.append(msgspec.structs.replace(message, content=content, rest=rest))
    return msgspec.structs.replace(recipe, messages=messages)
