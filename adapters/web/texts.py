"""What the page says, in the languages of the catalogue, chosen by the browser."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from nekro_core.api.i18n import LANGUAGES, Catalogue


@cache
def _catalogue() -> Catalogue:
    return Catalogue.load(files(__package__) / "texts")


def texts(language: str) -> Mapping[str, str]:
    """All sentences of one of `LANGUAGES`."""
    return _catalogue().keys(language)


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
