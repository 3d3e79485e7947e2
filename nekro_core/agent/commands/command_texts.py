"""What the bot's own commands are called and do, in each language."""

from typing import Any

from nekro_core.chat.catalogue import Catalogue
from nekro_core.chat.catalogue.languages import SupportedLang


def command_texts(catalogue: Catalogue, name: str) -> dict[str, Any]:
    """A command's aliases and descriptions from the catalogue, as arguments of `Command`."""
    words = {str(lang): catalogue.say(f"own.{name}.does", lang) for lang in SupportedLang}
    aliases = (catalogue.say(f"own.{name}.alias", lang) for lang in SupportedLang)
    return {
        "i18n_description": words,
        "aliases": tuple(dict.fromkeys(alias for alias in aliases if alias != name)),
    }
