"""Keeps the newest lines of one chat, and how rare each word is in them."""

import math
from collections import Counter, deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property

from nekro_core.agent.participation.line_text import LineText, read_line

WINDOW = 100
"""Number of earlier lines that are used to decide about the next line: about ten minutes of a busy
group."""
_WORD_WINDOW = 300
"""Number of the newest lines in which words are counted. A word that many of these lines have is
not rare."""


@dataclass(frozen=True, kw_only=True)
class SpokenLine:
    """One line of a chat.

    Attributes:
        speaker: The id of the person, or of the bot.
        at: When it was written, in seconds since 1970.
        said: What it says.
        named: The ids of the people that it names, mentions or replies to.
        first_named: The id of the person with whose name, mention or reply the line begins; empty
            if it begins in another way.
    """

    speaker: str
    at: float
    said: str
    named: frozenset[str] = frozenset()
    first_named: str = ""

    @cached_property
    def text(self) -> LineText:
        """The words and cues of what it says. They are read when they are first needed: in most
        groups the bot takes no part in the talk, so nothing is estimated there. Reading a line
        takes 0.05 ms, and the result takes 2 kB."""
        return read_line(self.said)


@dataclass(frozen=True, slots=True)
class AimedLine:
    """One of the newest lines. ``aims`` maps the id of each person to the probability, from 0 to 1,
    that the line goes to this person. People whose probability is nearly 0 are left out."""

    line: SpokenLine
    aims: Mapping[str, float] = field(default_factory=dict)


class Conversation:
    """The newest lines of one chat, oldest first."""

    def __init__(self) -> None:
        self.lines: deque[AimedLine] = deque(maxlen=WINDOW)
        self._uncounted: deque[SpokenLine] = deque(maxlen=_WORD_WINDOW)
        """The newest lines, whose words are not counted yet. `rarities` counts them."""
        self._words: deque[frozenset[str]] = deque()
        self._lines_with: Counter[str] = Counter()

    def add(self, heard: AimedLine) -> None:
        """Add the next line."""
        self.lines.append(heard)
        self._uncounted.append(heard.line)

    def shared(self, some: frozenset[str], others: AbstractSet[str]) -> float:
        """Return how much two lines have in common: the sum of the rarities of the words that are
        in both. ``some`` and ``others`` are the words of the lines."""
        return math.fsum(self.rarities(some & others).values())

    def rarities(self, words: AbstractSet[str]) -> dict[str, float]:
        """Return how rare each word is: the logarithm of about N / n, where N is the number of
        lines in which words are counted and n the number of those that have the word."""
        while self.count_words():
            pass
        count, known = len(self._words) + 1, self._lines_with
        return {word: math.log(count / (known.get(word, 0) + 0.5)) for word in words}

    def count_words(self) -> bool:
        """Count the words of the oldest line whose words are not counted yet. Returns whether there
        was one. `rarities` counts the words of all lines: up to 300, which can take 0.4 s. So call
        this before, with pauses, if other work waits."""
        if not self._uncounted:
            return False
        text = self._uncounted.popleft().text
        words = text.words | text.stems
        self._words.append(words)
        self._lines_with.update(words)
        if len(self._words) > _WORD_WINDOW:
            for word in self._words.popleft():
                self._lines_with[word] -= 1
                if not self._lines_with[word]:
                    del self._lines_with[word]
        return True
