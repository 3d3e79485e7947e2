"""What tools of chat bots are about, in English, Chinese and Japanese."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from nekro_core.tools.discovery.words import folded, runs, words


class Lexicon:
    """Concepts, each with the words that people have for it. Made by `lexicon`."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._english: dict[tuple[str, ...], list[int]] = {}
        self._eastern: dict[str, list[int]] = {}
        for number, line in enumerate(lines):
            for form in line.replace("|", ",").split(","):
                self._take(folded(form.strip()), number)
        self._longest = max(map(len, self._english), default=0)
        self._widest = max(map(len, self._eastern), default=0)

    def concepts(self, plain: str) -> Mapping[int, float]:
        """The concepts of a folded text, with how surely each is meant. A longer form hides the
        shorter ones that it is made of: in "anime" nobody speaks of "an image"."""
        found: dict[int, float] = {}
        stems = words(plain)
        at = 0
        while at < len(stems):
            at += self._longest_at(tuple(stems[at : at + self._longest]), found)
        for run in runs(plain):
            at = 0
            while at < len(run):
                at += self._widest_at(run[at : at + self._widest], found)
        return found

    def _longest_at(self, stems: tuple[str, ...], found: dict[int, float]) -> int:
        for length in range(len(stems), 0, -1):
            if known := self._english.get(stems[:length]):
                _note(known, found)
                return length
        return 1

    def _widest_at(self, text: str, found: dict[int, float]) -> int:
        for length in range(len(text), 0, -1):
            if known := self._eastern.get(text[:length]):
                _note(known, found)
                return length
        return 1

    def _take(self, form: str, number: int) -> None:
        eastern = runs(form)
        if eastern and eastern[0] == form:
            self._eastern.setdefault(form, []).append(number)
        elif stems := tuple(words(form)):
            self._english.setdefault(stems, []).append(number)


def _note(known: Sequence[int], found: dict[int, float]) -> None:
    # A word of several concepts says less of each.
    for number in dict.fromkeys(known):
        found[number] = max(found.get(number, 0.0), len(known) ** -0.5)


@cache
def lexicon() -> Lexicon:
    """The one that comes with the program, read when something is first searched for."""
    text = (files("nekro_core.tools.discovery") / "concepts.txt").read_text("utf-8")
    return Lexicon([line for line in text.splitlines() if line and not line.startswith("#")])
