"""Reads the texts of the console's pages, in all languages of the catalogue."""

from functools import cache
from importlib.resources import files

from nekro_core.chat.catalogue import LANGUAGES, Catalogue


@cache
def console_texts() -> Catalogue:
    """Return the texts of all pages. Each folder of ``texts/`` has the texts of one page. The key
    of a text is ``<folder>.<name>``."""
    sentences: dict[str, dict[str, str]] = {language: {} for language in LANGUAGES}
    for folder in sorted((files(__package__) / "texts").iterdir(), key=lambda each: each.name):
        if not folder.is_dir() or folder.name.startswith("_"):
            continue
        page = Catalogue.load(folder)
        for language in LANGUAGES:
            for name, text in page.keys(language).items():
                sentences[language][f"{folder.name}.{name}"] = text
    return Catalogue(sentences)
