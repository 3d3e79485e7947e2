"""Re-exports the catalogue of texts in several languages and its functions."""

from nekro_core.chat.catalogue import LANGUAGES, Catalogue, preferred
from nekro_core.chat.catalogue.languages import I18nDict, SupportedLang, get_text, i18n_text

__all__ = [
    "LANGUAGES",
    "Catalogue",
    "I18nDict",
    "SupportedLang",
    "get_text",
    "i18n_text",
    "preferred",
]
