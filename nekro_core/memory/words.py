"""Cuts texts of notes and documents into the words in which they are compared and searched.

Words of alphabets are compared without their endings. Chinese, Japanese and Korean texts are
compared by pairs of characters, because they have no spaces between words.
"""

import re
from unicodedata import normalize

_WIDE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_RUNS = re.compile(rf"[{_WIDE}]+|[^\W_{_WIDE}]+")
_IS_WIDE = re.compile(rf"[{_WIDE}]")
_ENDINGS = ("ing", "ed", "es", "s")
_LEAST_STEM = 3


def split_words(text: str) -> tuple[str, ...]:
    """Return the words of a text in the form in which they are compared, in their order."""
    found: list[str] = []
    for run in _RUNS.findall(normalize("NFKC", text).casefold()):
        if _IS_WIDE.match(run):
            found += (run[i : i + 2] for i in range(max(len(run) - 1, 1)))
        else:
            found.append(_stem(run))
    return tuple(found)


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _LEAST_STEM:
            word = word[: -len(ending)]
            break
    # Remove a final "e", so that "like" and "likes" get the same stem.
    return word[:-1] if word.endswith("e") and len(word) > _LEAST_STEM else word
