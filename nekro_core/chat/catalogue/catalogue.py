"""Sentences by key and language, from the TOML files beside this module."""

import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Self

LANGUAGES = ("en", "zh", "ja")
"""The first one stands in where a sentence is asked for in a language that there is none of."""


class Catalogue:
    """Sentences of one version of the program. Values put into them are data, never templates."""

    def __init__(self, sentences: Mapping[str, Mapping[str, str]]) -> None:
        self._sentences = {language: dict(table) for language, table in sentences.items()}

    @classmethod
    def load(cls) -> Self:
        """Read the files of the package."""
        folder = files("nekro_core.chat.catalogue")
        return cls(
            {
                language: _flat(tomllib.loads((folder / f"{language}.toml").read_text("utf-8")))
                for language in LANGUAGES
            }
        )

    def say(self, key: str, language: str = "", **values: object) -> str:
        """The sentence ``key`` (``turn.stopped``) with its placeholders filled.

        ``language`` is a BCP 47 tag of which the first part counts. Raises `KeyError` for a key or
        a placeholder that is missing, which is a mistake of the program.
        """
        tag = language.replace("_", "-").partition("-")[0].lower()
        table = self._sentences.get(tag) or self._sentences[LANGUAGES[0]]
        return table[key].format_map({name: str(value) for name, value in values.items()})

    def keys(self, language: str) -> Mapping[str, str]:
        """All sentences of a language as they are written."""
        return self._sentences[language]


def language_of(texts: Iterable[str]) -> str:
    """``ja`` where one of the texts has kana, else ``zh`` where one has Chinese characters, else
    ``en``. Chinese and Japanese share characters, so a few texts tell more than one."""
    found = ""
    for text in texts:
        if any("\u3041" <= character <= "\u30ff" for character in text):
            return "ja"
        if any("\u4e00" <= character <= "\u9fff" for character in text):
            found = "zh"
    return found or LANGUAGES[0]


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    sentences: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            sentences |= _flat(value, f"{prefix}{name}.")
        else:
            sentences[prefix + name] = str(value)
    return sentences
