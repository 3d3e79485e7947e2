"""Reads the texts of the page, in the languages of the catalogue."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from nekro_core.api.i18n import Catalogue


@cache
def _catalogue() -> Catalogue:
    return Catalogue.load(files(__package__) / "texts")


def texts(language: str) -> Mapping[str, str]:
    """Return the sentences of the page in ``language``, which is one of `LANGUAGES`."""
    return _catalogue().keys(language)
