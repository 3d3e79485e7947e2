"""Reads the Ubuntu IRC conversations with reply links of Kummerfeld et al. (2019).

The data are at github.com/jkkummerfeld/irc-disentanglement, under CC BY 4.0: "A Large-Scale Corpus
for Conversation Disentanglement", ACL 2019. A folder contains pairs of files: NAME.ascii.txt has
the lines, and NAME.annotation.txt the links. A link consists of the numbers of two lines. The later
line answers the earlier one.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nekro_core.agent.participation.conversation import SpokenLine

_SAID = re.compile(r"\[(\d\d):(\d\d)\] (?:<([^>]+)>|\* (\S+)) ?(.*)")
_RENAMED = re.compile(r"=== (\S+) is now known as (\S+)")
_TOKEN = re.compile(r"[^\s,:;!?()<>\"/]+")
_STRANGER = re.compile(r"[a-z_\[\]\\`|{}^-][\w\[\]\\`|{}^-]{0,15}\Z")
_MOST_TOKENS = 60
_BEFORE = 300
"""Number of lines that are read before the first annotated line. The bot remembers fewer."""
_WORDS = frozenset(
    [
        "the",
        "you",
        "and",
        "for",
        "that",
        "this",
        "with",
        "have",
        "what",
        "not",
        "can",
        "are",
        "was",
        "but",
        "how",
        "does",
        "anyone",
        "ubuntu",
        "help",
        "linux",
        "just",
        "like",
        "get",
        "know",
        "where",
        "when",
        "which",
        "there",
        "here",
        "some",
        "all",
        "use",
        "using",
        "work",
        "works",
        "want",
        "need",
        "try",
        "thanks",
        "please",
        "install",
        "will",
        "would",
        "could",
        "should",
        "one",
        "two",
        "its",
        "on",
        "in",
        "is",
        "it",
        "me",
        "my",
        "no",
        "yes",
        "so",
        "to",
        "of",
        "or",
        "if",
        "do",
        "at",
        "as",
        "an",
        "be",
        "by",
        "i",
        "a",
        "hi",
        "hello",
        "ok",
        "test",
        "root",
        "user",
        "guest",
        "windows",
        "error",
        "sorry",
        "really",
        "right",
        "good",
        "bad",
        "new",
        "old",
        "time",
        "back",
        "line",
        "file",
        "sudo",
        "apt",
        "server",
        "desktop",
        "kernel",
        "any",
    ]
)
"""Names of people that are also ordinary words. Such a word counts as a name only at the beginning
of a line, before a colon or comma."""


@dataclass(frozen=True, slots=True)
class Day:
    """One file of the corpus: its lines by number, and for each line the numbers of the lines that
    it answers."""

    name: str
    lines: Mapping[int, SpokenLine]
    links: Mapping[int, frozenset[int]]

    def answered(self, number: int) -> set[str]:
        """Return the people whose lines this line answers. If this line continues a line of its own
        speaker, the speaker is included."""
        return {
            self.lines[each].speaker
            for each in self.links[number]
            if each != number and each in self.lines
        }


def read_folder(folder: Path, every: int = 1) -> list[Day]:
    """Read the pairs of files of a folder: all of them, or every ``every``-th. Raises `SystemExit`
    if there are none."""
    paths = sorted(folder.glob("*.ascii.txt"))
    if not paths:
        raise SystemExit(
            f"{folder} has no file NAME.ascii.txt; expected the folder data/train or data/dev of "
            "the irc-disentanglement corpus, unpacked; give it with DATA=FOLDER"
        )
    return [_read(path) for path in paths[::every]]


def _read(path: Path) -> Day:
    rows = path.read_text("utf-8", "replace").split("\n")
    said = [_SAID.match(row) for row in rows]
    speakers = {(each[3] or each[4]).lower() for each in said if each}
    moments = _moments(said)
    links = _links(path.with_name(path.name.replace(".ascii.", ".annotation.")))
    begins, ends = min(links, default=0) - _BEFORE, max(links, default=0)
    names: dict[str, str] = {}
    lines: dict[int, SpokenLine] = {}
    for number, (row, found) in enumerate(zip(rows, said, strict=True)):
        if found is None:
            if renamed := _RENAMED.match(row):
                old, new = renamed[1].lower(), renamed[2].lower()
                names[new] = names.pop(old, old)
            continue
        nick = (found[3] or found[4]).lower()
        speaker = names.setdefault(nick, nick)
        if not begins <= number <= ends:
            continue
        named, first = find_names(found[5], names, speakers, speaker)
        lines[number] = SpokenLine(
            speaker=speaker,
            at=moments[number],
            said=found[5],
            named=named,
            first_named=first,
        )
    return Day(
        path.name.partition(".ascii")[0],
        lines,
        {number: frozenset(each) for number, each in links.items() if number in lines},
    )


def _links(path: Path) -> dict[int, set[int]]:
    links: defaultdict[int, set[int]] = defaultdict(set)
    for note in path.read_text("utf-8").splitlines():
        if len(numbers := note.split()) >= 2:
            earlier, later = sorted((int(numbers[0]), int(numbers[1])))
            links[later].add(earlier)
    return links


def _moments(said: list[re.Match[str] | None]) -> dict[int, float]:
    """Return the time of each line in seconds. The files state only minutes, so the lines of one
    minute are spread evenly over it."""
    minutes: dict[int, int] = {}
    days, before = 0, -1
    for number, found in enumerate(said):
        if found is None:
            continue
        minute = int(found[1]) * 60 + int(found[2]) + days
        if minute < before - 720:
            days, minute = days + 1440, minute + 1440
        before = minutes[number] = max(before, minute)
    count, used = Counter(minutes.values()), Counter[int]()
    result: dict[int, float] = {}
    for number, minute in minutes.items():
        result[number] = 60.0 * minute + 60.0 * (used[minute] + 0.5) / count[minute]
        used[minute] += 1
    return result


def find_names(
    text: str, names: Mapping[str, str], speakers: set[str], speaker: str
) -> tuple[frozenset[str], str]:
    """Return the people whom a line names, and the person whose name it begins with."""
    plain, named, first = text.lower(), set[str](), ""
    for at, token in enumerate([*_TOKEN.finditer(plain)][:_MOST_TOKENS]):
        after = plain[token.end() : token.end() + 1]
        nick = next(
            (
                each
                for each in (token[0], token[0].strip(".@"))
                if each in names or each in speakers
            ),
            "",
        )
        who = names.get(nick, nick)
        if nick and who != speaker:
            sure = len(nick) >= 3 and nick not in _WORDS
            if sure or (at == 0 and after in (":", ",") and after):
                named.add(who)
                first = who if at == 0 else first
        calls_stranger = plain[token.end() : token.end() + 2] == ": "
        if not nick and at == 0 and calls_stranger and _STRANGER.match(token[0]):
            first = f"?{token[0]}"
            named.add(first)
    return frozenset(named), first
