"""Removes the parts of a text that cannot be spoken, and recognizes the language of a text."""

import re
import unicodedata

from nekro_core.speech.speaker import TextUnspeakable

MAX_CHARACTERS = 2_000

_CODE_MARKS = re.compile(r"[`*_#>|~]{1,}")
_SPACES = re.compile(r"\s+")

# The first entry whose pattern occurs in the text decides the language. Scripts that several
# languages use come later. For example, kana is before Han, because Japanese has both. Letters that
# only one language has come before the script that they belong to.
# `re` compiles the patterns when a text is first spoken: that takes 10 ms, and few bots speak.
_LANGUAGE_MARKS = (
    ("ja", r"[\u3041-\u309f\u30a1-\u30fa\u30fd-\u30ff\uff66-\uff9d]"),
    ("ko", r"[\uac00-\ud7a3\u1100-\u11ff\u3131-\u318e]"),
    ("zh", r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"),
    ("uk", r"[ґєіїҐЄІЇ]"),
    ("be", r"[ўЎ]"),
    ("ru", r"[\u0400-\u04ff]"),
    ("fa", r"[پچژگ]"),
    ("ar", r"[\u0600-\u06ff]"),
    ("he", r"[\u0590-\u05ff]"),
    ("el", r"[\u0370-\u03ff]"),
    ("th", r"[\u0e00-\u0e7f]"),
    ("hi", r"[\u0900-\u097f]"),
    ("bn", r"[\u0980-\u09ff]"),
    ("pa", r"[\u0a00-\u0a7f]"),
    ("gu", r"[\u0a80-\u0aff]"),
    ("ta", r"[\u0b80-\u0bff]"),
    ("te", r"[\u0c00-\u0c7f]"),
    ("kn", r"[\u0c80-\u0cff]"),
    ("ml", r"[\u0d00-\u0d7f]"),
    ("my", r"[\u1000-\u109f]"),
    ("ka", r"[\u10a0-\u10ff]"),
    ("hy", r"[\u0530-\u058f]"),
    ("am", r"[\u1200-\u137f]"),
    ("vi", r"[ăđơưĂĐƠƯ\u1ea0-\u1ef9]"),
    ("pl", r"[ąćęłńśźżĄĆĘŁŃŚŹŻ]"),
    ("tr", r"[ğışĞİŞ]"),
    ("cs", r"[ěřůĚŘŮ]"),
    ("hu", r"[őűŐŰ]"),
    ("ro", r"[țșȚȘ]"),
    ("pt", r"[ãõÃÕ]"),
    ("es", r"[ñ¿¡Ñ]"),
    ("de", r"[ßäöüÄÖÜ]"),
    ("fr", r"[éèêçœàùÉÈÊÇŒÀÙ]"),
)


def clean_text(text: str) -> str:
    """Return the text that an engine gets. Control characters, lone surrogates, emoji and markup
    signs are removed.

    Raises `TextUnspeakable` if nothing is left to speak, or for more than 2,000 characters.
    """
    if len(text) > MAX_CHARACTERS:
        raise TextUnspeakable(
            f"{len(text)} characters are too long to speak: send at most {MAX_CHARACTERS:,} at once"
        )
    # NFKC is applied first, so that half-width kana and full-width letters are read like normal
    # kana and letters.
    text = unicodedata.normalize("NFKC", _without_surrogates(text))
    text = "".join(character if _is_spoken(character) else " " for character in text)
    text = _SPACES.sub(" ", _CODE_MARKS.sub(" ", text)).strip()
    if not any(unicodedata.category(character)[0] in "LN" for character in text):
        raise TextUnspeakable(
            "there is nothing to speak: the text needs a letter or a digit "
            "(emoji, signs and spaces have no sound)"
        )
    return text


def language_of(text: str) -> str:
    """Return the language that the script of ``text`` suggests, as a BCP 47 tag. If the script
    suggests none, return English."""
    for language, mark in _LANGUAGE_MARKS:
        if re.search(mark, text):
            return language
    return "en"


def _without_surrogates(text: str) -> str:
    return text.encode("utf-8", "ignore").decode()


def _is_spoken(character: str) -> bool:
    # Letters, marks and numbers are spoken, punctuation is a pause, and signs of currency and
    # mathematics have names. Joiners and variation selectors only shape emoji and ligatures.
    if character in "\u200b\u200c\u200d\ufe0e\ufe0f\u20e3":
        return False
    category = unicodedata.category(character)
    return category[0] in "LMNP" or category in ("Sc", "Sm") or character in " °^"
