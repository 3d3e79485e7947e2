"""Makes rough sound keys of words, so that a katakana word and the English word that it comes from
have the same key.

Only consonants and a vowel at the beginning count, since katakana adds vowels between consonants.
Consonants that katakana cannot distinguish become the same, for example l and r; b and v; s, z, sh
and th. So トレロ and "Trello" both have the key "trr".
"""

import re

_KATAKANA = re.compile(r"[ァ-ヺー]{3,}")
_W = re.compile(r"ウ(?=[ァィェォ])")
_ROWS = {
    "k": "カキクケコヵヶ", "g": "ガギグゲゴ", "s": "サシスセソザジズゼゾヂヅ", "t": "タチツテト",
    "d": "ダデド", "n": "ナニヌネノンマミムメモ", "h": "ハヒフヘホ", "b": "バビブベボヴ",
    "p": "パピプペポ", "r": "ラリルレロ", "A": "アイウエオ",
}  # fmt: skip
_OF_KANA = {kana: row for row, many in _ROWS.items() for kana in many}
"""Maps each kana to its consonant, and a vowel to A. A key keeps an A only as its first letter. M
becomes n, since ン stands for both. Ya, wa, small kana and ー are not in it."""
_ENGLISH = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (r"[^a-z]", ""),
        (r"([a-z])\1", r"\1"),
        (r"^(?:kn|gn)", "n"), (r"^wr", "r"), (r"^ps", "s"),
        (r"tion|sion|cian", "sn"), (r"ture", "t"), (r"dge", "z"), (r"t(?:ch|s|z)", "t"),
        (r"ph", "f"), (r"gh(?=t|$)", ""), (r"sch", "sk"), (r"ch", "t"), (r"ck", "k"), (r"qu?", "k"),
        (r"sh|th", "s"), (r"x", "ks"), (r"c(?=[eiy])", "s"), (r"c", "k"), (r"j|z", "s"),
        (r"g(?=es?$|y)", "s"), (r"v", "b"), (r"f", "h"), (r"m", "n"),
        # An r is silent unless a vowel follows. For example, "server" is サーバー.
        (r"(?<=[aeiou])r(?![aeiouyr])", ""), (r"l", "r"),
    )
)  # fmt: skip
_FIRST_VOWEL = re.compile(r"^[aeiouy]")
_VOWEL = re.compile(r"[aeiouyw]")
_TWICE = re.compile(r"n{2,}")
_LEAST = 3
"""A key needs at least this many characters. With two, a tenth of all words would share
their key with an unrelated word."""


def runs_of_katakana(plain: str) -> list[str]:
    """Find the sequences of katakana in a text. Each is probably a loanword from English."""
    return _KATAKANA.findall(plain)


def sound_of_katakana(run: str) -> str:
    """Get the key of a sequence of katakana; empty if the key would be too short."""
    rows = "".join(_OF_KANA.get(kana, "") for kana in _W.sub("", run))
    key = _TWICE.sub("n", rows[:1] + rows[1:].replace("A", ""))
    return key if len(key) >= _LEAST else ""


def sound_of_english(word: str) -> str:
    """Get the key of a lower-case English word; empty if the key would be too short."""
    spoken = word
    for pattern, instead in _ENGLISH:
        spoken = pattern.sub(instead, spoken)
    key = _TWICE.sub("n", _VOWEL.sub("", _FIRST_VOWEL.sub("A", spoken)))
    return key if len(key) >= _LEAST else ""
