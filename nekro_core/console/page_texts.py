"""Reads the texts of the pages that are no NiceGUI pages: the login and the plain pages."""

from collections.abc import Mapping
from functools import cache

from nekro_core.console.texts import console_texts


@cache
def texts_of(page: str, language: str) -> Mapping[str, str]:
    """Return the texts of one page in ``language``, which is one of `LANGUAGES`. ``page`` is the
    folder of the texts."""
    prefix = f"{page}."
    texts = console_texts().keys(language)
    return {key.removeprefix(prefix): text for key, text in texts.items() if key.startswith(prefix)}
