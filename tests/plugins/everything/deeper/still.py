"""A module of a package inside the plugin."""

from pydantic import BaseModel

from .. import words  # noqa: TID252 - plugins write this

DEPTH = len(words.WORD)


class Counted(BaseModel):
    """A number."""

    number: int = DEPTH
