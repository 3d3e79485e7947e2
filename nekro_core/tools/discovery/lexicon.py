"""Finds the concepts that English, Chinese and Japanese texts mention. A list names the words of
each concept; it has the topics that people talk about with chat bots."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files

from nekro_core.tools.discovery.words import (
    all_words,
    character_bigrams,
    cjk_runs,
    folded,
    is_stop_word,
)

Part = tuple[tuple[str, ...], Mapping[int, float]]
"""The stems or character pairs of a word, and its possible concepts with their weights."""
_INSIDE = 0.5
"""Weight of a word that is only a part of a longer entry that fits."""
_SINGLE = 0.5
"""Weight of a single Chinese or Japanese character, which may be a part of an unknown word."""


class ConceptLexicon:
    """The concepts, and the words that express each of them. `lexicon` makes this object."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._english: dict[tuple[str, ...], list[int]] = {}
        self._eastern: dict[str, list[int]] = {}
        self._weights: list[float] = []
        weight = 1.0
        for line in lines:
            if line.startswith("=="):
                weight = float(line.split()[1])
                continue
            for form in line.replace("|", ",").split(","):
                self._take(folded(form.strip()), len(self._weights))
            self._weights.append(weight)
        self._longest = max(map(len, self._english), default=0)
        self._widest = max(map(len, self._eastern), default=0)

    def parts(self, plain: str) -> Iterator[Part]:
        """Split a text that was normalized by `folded` into parts. Each part has stems or character
        pairs, and the weighted concepts that it may mean.

        The longest entry that fits counts fully. A shorter entry inside it has less weight, for
        example "time" in "local time"; a single character inside a Chinese word has none.
        """
        stems = all_words(plain)
        at = 0
        while at < len(stems):
            found: dict[int, float] = {}
            length = self._note_english(stems, at, found)
            telling = [each for each in stems[at : at + length] if not is_stop_word(each)]
            for inner in telling if length > 1 else ():
                self._note(self._english.get((inner,), ()), found, _INSIDE)
            if telling or found:
                yield tuple(telling), found
            at += length
        for run in cjk_runs(plain):
            at = 0
            while at < len(run):
                found = {}
                length = self._note_eastern(run[at : at + self._widest], found)
                for start in range(at, at + length - 1) if length > 2 else ():
                    self._note(self._eastern.get(run[start : start + 2], ()), found, _INSIDE)
                yield tuple(character_bigrams(run[at : at + max(length, 2)])), found
                at += length

    def _note_english(self, stems: Sequence[str], at: int, found: dict[int, float]) -> int:
        """Add the concepts of the longest entry that begins at ``at``, and return how many words of
        the text it covers. Stop words may be between the entry's words, as in "identify the song".
        """
        for length in range(min(self._longest, len(stems) - at), 0, -1):
            known = self._english.get(tuple(stems[at : at + length]))
            if known and (length > 1 or not is_stop_word(stems[at])):
                self._note(known, found)
                return length
            near = range(at, min(at + 2 * length, len(stems)))
            telling = [place for place in near if not is_stop_word(stems[place])][:length]
            known = self._english.get(tuple(stems[place] for place in telling))
            if known and length > 1 and telling[0] == at:
                self._note(known, found)
                return telling[-1] + 1 - at
        return 1

    def _note_eastern(self, text: str, found: dict[int, float]) -> int:
        for length in range(len(text), 0, -1):
            if known := self._eastern.get(text[:length]):
                self._note(known, found, 1.0 if length > 1 else _SINGLE)
                return length
        return 1

    def _take(self, form: str, number: int) -> None:
        eastern = cjk_runs(form)
        if eastern and eastern[0] == form:
            known = self._eastern.setdefault(form, [])
        elif stems := tuple(all_words(form)):
            known = self._english.setdefault(stems, [])
        else:
            return
        if number not in known:
            known.append(number)

    def _note(self, known: Sequence[int], found: dict[int, float], sure: float = 1.0) -> None:
        # A word with several concepts has less weight for each of them.
        for number in known:
            counts = sure * self._weights[number] * len(known) ** -0.5
            found[number] = max(found.get(number, 0.0), counts)


@cache
def lexicon() -> ConceptLexicon:
    """Get the lexicon of ``concepts.txt``. The file is read at the first call."""
    text = (files("nekro_core.tools.discovery") / "concepts.txt").read_text("utf-8")
    return ConceptLexicon(line for line in text.splitlines() if line and not line.startswith("#"))
