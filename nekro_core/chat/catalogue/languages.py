"""Texts in several languages, which a plugin defines."""

from enum import StrEnum

I18nDict = dict[str, str]
"""The same text in several languages. The keys are BCP 47 tags."""


class SupportedLang(StrEnum):
    """The languages in which texts are shown to people."""

    ZH_CN = "zh-CN"
    EN_US = "en-US"
    JA_JP = "ja-JP"


def i18n_text(*, zh_CN: str, en_US: str, ja_JP: str = "") -> I18nDict:  # noqa: N803 - plugins' names
    """Build a text in several languages.

    Args:
        zh_CN: The Chinese text.
        en_US: The English text.
        ja_JP: The Japanese text; empty for none.

    Returns:
        The texts that are not empty, by BCP 47 tag.
    """
    texts = {SupportedLang.ZH_CN: zh_CN, SupportedLang.EN_US: en_US, SupportedLang.JA_JP: ja_JP}
    return {str(language): text for language, text in texts.items() if text}


def get_text(text: I18nDict | str | None, default: str, lang: str = SupportedLang.EN_US) -> str:
    """Get the text in a language. If it does not exist in this language, get the English text; if
    there is no English text either, return ``default``.

    Args:
        text: Texts by BCP 47 tag. A plain text is returned unchanged.
        default: The result if the text exists neither in ``lang`` nor in English.
        lang: A BCP 47 tag.

    Returns:
        The text.
    """
    if isinstance(text, str):
        return text
    texts = text or {}
    return texts.get(lang) or texts.get(SupportedLang.EN_US) or default
