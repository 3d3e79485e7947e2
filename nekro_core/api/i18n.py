"""Texts in several languages."""

from nekro_core.plugin.i18n import I18nDict, SupportedLang, get_text, i18n_text

__all__ = ["I18nDict", "SupportedLang", "get_text", "i18n_text"]
