"""What the page says, in the languages of the catalogue, chosen by the browser."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

LANGUAGES = ("en", "zh", "ja")
"""The first one stands in for every other."""


@cache
def texts(language: str) -> Mapping[str, str]:
    """All sentences of one of `LANGUAGES`."""
    text = (files(__package__) / "texts" / f"{language}.toml").read_text("utf-8")
    return {key: str(sentence) for key, sentence in tomllib.loads(text).items()}


def preferred(accept_language: str) -> str:
    """The best of `LANGUAGES` for an ``Accept-Language`` header (RFC 9110, section 12.5.4)."""
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
