"""Converts kanji to kana, for engines that cannot read Japanese.

espeak-ng says "Chinese letter" for a kanji, and also spells the kana next to kanji. MeCab with the
IPA dictionary knows how kanji are read, and where は is read "wa" and へ is read "e". MeCab reads
names and some counters wrong.
"""

import importlib
import re
from functools import cache
from importlib.util import find_spec
from typing import Any

_HAN = r"[\u3400-\u9fff\uf900-\ufaff\u3005-\u3007\U00020000-\U0003ffff]"  # `re` compiles it: 4 ms
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_PRONUNCIATION = 8
_LEANS_ON_THE_WORD_BEFORE = {"助詞", "助動詞"}
_DIGITS = "〇一二三四五六七八九"
_TENS = ("", "十", "百", "千")
_MYRIADS = ("", "万", "億", "兆")


def dictionary_installed() -> bool:
    """Return True if the dictionary is installed."""
    return find_spec("fugashi") is not None and find_spec("ipadic") is not None


def to_kana(text: str) -> str:
    """Return the text as it is pronounced, with spaces between words. Kanji without a known reading
    are left out."""
    words: list[str] = []
    for token in _tagger()(_NUMBER.sub(lambda found: number_in_kanji(found.group()), text)):
        surface, feature = str(token), token.feature
        known = len(feature) > _PRONUNCIATION and feature[_PRONUNCIATION] != "*"
        sound = feature[_PRONUNCIATION] if known else re.sub(_HAN, "", surface)
        leans = feature[0] in _LEANS_ON_THE_WORD_BEFORE or "接尾" in feature[:3]
        words.append(sound if leans or feature[0] == "記号" else f" {sound}")
    return "".join(words).strip()


def number_in_kanji(digits: str) -> str:
    """Write ``1024`` as 千二十四, so that the dictionary reads it. A number of over 16 digits is
    written digit by digit."""
    whole, point, fraction = digits.replace(",", "").partition(".")
    spelled = _whole_in_kanji(whole) if len(whole) <= 16 else _one_by_one(whole)
    return f"{spelled}点{_one_by_one(fraction)}" if point else spelled


def _one_by_one(digits: str) -> str:
    return "".join(_DIGITS[int(digit)] for digit in digits)


def _whole_in_kanji(digits: str) -> str:
    if not digits.strip("0"):
        return "零"
    groups: list[str] = []
    for power in range(4):
        group = digits[max(0, len(digits) - 4 * power - 4) : len(digits) - 4 * power]
        if len(digits) <= 4 * power:
            break
        spelled = ""
        for place, digit in enumerate(reversed(group)):
            if digit == "0":
                continue
            # Write the digit one before 万, but not before 十, 百 and 千, because it is not spoken
            # there.
            numeral = "" if digit == "1" and place else _DIGITS[int(digit)]
            spelled = f"{numeral}{_TENS[place]}{spelled}"
        groups.append(f"{spelled}{_MYRIADS[power]}" if spelled else "")
    return "".join(reversed(groups))


@cache
def _tagger() -> Any:
    fugashi = importlib.import_module("fugashi")
    ipadic = importlib.import_module("ipadic")
    return fugashi.GenericTagger(ipadic.MECAB_ARGS)
