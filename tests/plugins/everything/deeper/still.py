"""A part of a part."""

from pydantic import BaseModel

from .. import words  # noqa: TID252 - as plugins write it

DEPTH = len(words.WORD)


class Counted(BaseModel):
    """How many."""

    number: int = DEPTH
