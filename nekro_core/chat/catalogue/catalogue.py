"""Finds sentences by key and language. The sentences are read from a folder of TOML files."""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Self

from nekro_core.chat.catalogue.languages import I18nDict, SupportedLang

LANGUAGES = ("en", "zh", "ja")
"""The languages of a catalogue. The first one is used for people with any other language."""


class Catalogue:
    """Sentences that people read, in each of `LANGUAGES`.

    Args:
        sentences: The sentences by key, for each language. ``{name}`` is a placeholder.
    """

    def __init__(self, sentences: Mapping[str, Mapping[str, str]]) -> None:
        self._sentences = {language: dict(table) for language, table in sentences.items()}

    @classmethod
    def load(cls, folder: Traversable | None = None) -> Self:
        """Read a catalogue.

        Args:
            folder: The folder with a file for each language (``en.toml``). An adapter passes
                ``files(__package__) / "texts"``. None means the core's own sentences.

        Returns:
            The catalogue.

        Raises:
            OSError: A file cannot be read.
            ValueError: A file is not TOML.
        """
        return cls(_own_sentences() if folder is None else _read_sentences(folder))

    def say(self, key: str, language: str = "", **values: object) -> str:
        """Get a sentence, with values in place of its placeholders.

        Args:
            key: Table and name, for example ``turn.stopped``.
            language: A BCP 47 tag. Only its first part is used.
            values: The values of the placeholders. A ``{name}`` in a value is not a placeholder.
                ``{count:message|messages}`` is the first word if ``count`` is 1, else the second.

        Returns:
            The sentence.

        Raises:
            KeyError: There is no such sentence, or a placeholder has no value. This is a bug in the
                calling code.
        """
        tag = language.replace("_", "-").partition("-")[0].lower()
        table = self._sentences.get(tag) or self._sentences[LANGUAGES[0]]
        return table[key].format_map({name: _Value(value) for name, value in values.items()})

    def in_each(self, key: str) -> I18nDict:
        """Get a sentence in every language.

        Args:
            key: Table and name.

        Returns:
            The sentence in each language. The keys are the tags of `SupportedLang`.

        Raises:
            KeyError: There is no such sentence.
        """
        return {str(language): self.say(key, language) for language in SupportedLang}

    def keys(self, language: str) -> Mapping[str, str]:
        """Get all sentences of a language.

        Args:
            language: One of `LANGUAGES`.

        Returns:
            The sentences by key, with their placeholders.

        Raises:
            KeyError: ``language`` is not one of `LANGUAGES`.
        """
        return self._sentences[language]


def language_of(texts: Iterable[str]) -> str:
    """Guess the language of some texts. Return ``ja`` if a text has kana; otherwise ``zh`` if a
    text has Chinese characters; otherwise ``en``. Pass several texts if possible, because a short
    Japanese text may have no kana."""
    found = ""
    for text in texts:
        if any("\u3041" <= character <= "\u30ff" for character in text):
            return "ja"
        if any("\u4e00" <= character <= "\u9fff" for character in text):
            found = "zh"
    return found or LANGUAGES[0]


def preferred(accept_language: str) -> str:
    """Choose the language that a browser prefers.

    Args:
        accept_language: An ``Accept-Language`` header (RFC 9110, section 12.5.4); empty if the
            request has none.

    Returns:
        The language of `LANGUAGES` that the header prefers most. If the header has none of them,
        the first of `LANGUAGES`.
    """
    choices: list[tuple[float, int, str]] = []
    for position, entry in enumerate(accept_language.split(",")[:32]):
        tag, _, parameter = entry.strip().partition(";")
        name, _, value = parameter.strip().partition("=")
        try:
            quality = float(value) if name.strip() == "q" else 1.0
        except ValueError:
            quality = 0.0
        language = tag.strip().lower().replace("_", "-").partition("-")[0]
        if language in LANGUAGES and quality > 0:
            choices.append((-quality, position, language))
    return min(choices)[2] if choices else LANGUAGES[0]


class _Value(str):
    """The value of a placeholder, which also chooses between singular and plural."""

    __slots__ = ()

    def __format__(self, form: str) -> str:
        one, bar, several = form.partition("|")
        if not bar:
            return super().__format__(form)
        return one if self == "1" else several


@cache
def _own_sentences() -> dict[str, dict[str, str]]:
    """Read the core's own sentences. A start loads them three times, and reading them takes
    10 ms."""
    return _read_sentences(files("nekro_core.chat.catalogue"))


def _read_sentences(folder: Traversable) -> dict[str, dict[str, str]]:
    return {
        language: _flat(tomllib.loads((folder / f"{language}.toml").read_text("utf-8")))
        for language in LANGUAGES
    }


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    sentences: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            sentences |= _flat(value, f"{prefix}{name}.")
        else:
            sentences[prefix + name] = str(value)
    return sentences
