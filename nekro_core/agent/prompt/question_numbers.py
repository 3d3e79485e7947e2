"""Finds the numbers in what people write: digits, number words, Chinese numerals.

The result may have more numbers than the person meant: "twenty-five" gives 20, 5 and 25. This does
no harm, because the result is used as the list of numbers that an answer may contain.
"""

import re
import unicodedata

_MINUS = r"(?<!\w)-|minus |マイナス|零下|氷点下"
_DIGITS = re.compile(rf"(?P<sign>{_MINUS})?(?P<digits>\d+(?:\.\d+)?)")
_THOUSANDS = re.compile(r"(?<![\d,])\d{1,3}(?:,\d{3})+(?![\d,])")
_FACTORS = {"k": 1000, "hundred": 100, "thousand": 1000, "million": 1_000_000}
_FACTORS |= {"千": 1000, "万": 10_000, "萬": 10_000, "億": 100_000_000, "亿": 100_000_000}
_FACTOR = re.compile(rf"\s?({'|'.join(_FACTORS)})(?![a-z])")
_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
_ONES += " fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS: dict[str, float] = {word: number for number, word in enumerate(_ONES.split())}
_WORDS |= {word: 10 * number for number, word in enumerate(_TENS.split(), 2)}
_WORDS |= {"once": 1, "single": 1, "twice": 2, "both": 2, "pair": 2, "couple": 2}
_WORDS |= {"double": 2, "triple": 3, "dozen": 12, "half": 0.5}
_WORD = re.compile(r"[a-z]+")
_KANA = {"ひとつ": 1, "ふたつ": 2, "みっつ": 3, "よっつ": 4, "いつつ": 5, "むっつ": 6}
_KANA |= {"ななつ": 7, "やっつ": 8, "ここのつ": 9, "ひとり": 1, "ふたり": 2}
_NUMERALS = dict(zip("零〇一二三四五六七八九", (0, 0, *range(1, 10)), strict=True))
_NUMERALS |= {"两": 2, "兩": 2}
_UNITS = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "萬": 10_000}
_NUMERAL_RUN = re.compile(f"[{''.join(_NUMERALS)}{''.join(_UNITS)}]+")
_HALF = re.compile("半")
_MAX_RUN = 12
"""Maximum number of characters of one Chinese numeral. A longer row of numerals is not read as a
number."""


def numbers_in(text: str) -> list[float]:
    """Return the numbers of a text, in no certain order. A number that occurs twice in the text is
    in the list twice."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), plain)
    found = *_with_digits(plain), *_with_words(plain), *_with_numerals(plain)
    return [float(each) for each in found]


def _with_digits(text: str) -> list[float]:
    found: list[float] = []
    for match in _DIGITS.finditer(text):
        number = float(match["digits"])
        found.append(number)
        if factor := _FACTOR.match(text, match.end()):
            found.append(number * _FACTORS[factor[1]])
        if match["sign"]:
            found.append(-number)
    return found


def _with_words(text: str) -> list[float]:
    """Return the numbers of English number words: "twenty-five" gives 20, 5 and 25, "three hundred"
    gives 3 and 300."""
    found: list[float] = []
    before = 0.0
    for word in _WORD.findall(text):
        number = _WORDS.get(word)
        if number is None and word in _FACTORS and word != "k" and before:
            number = before * _FACTORS[word]
        if number is None:
            before = 0.0
            continue
        found.append(number)
        if before >= 20 and 0 < number < 10:  # "twenty" and "five" are 25
            found.append(before + number)
        before = number
    return found


def _with_numerals(text: str) -> list[float]:
    """Return the numbers of Chinese and Japanese words: 二十五 gives 25, 一二 gives 1, 2 and 12."""
    found: list[float] = []
    for match in _NUMERAL_RUN.finditer(text):
        run = match[0]
        if len(run) > _MAX_RUN:
            continue
        if any(each in _UNITS for each in run):
            found.append(_value(run))
        else:
            found += (float(_NUMERALS[each]) for each in run)
            if len(run) > 1:
                found.append(float("".join(str(_NUMERALS[each]) for each in run)))
    found += (number for word, number in _KANA.items() if word in text)
    found += (0.5 for _ in _HALF.finditer(text))
    return found


def _value(run: str) -> float:
    whole = part = digit = 0
    for each in run:
        unit = _UNITS.get(each, 0)
        if not unit:
            digit = _NUMERALS[each]
        elif unit >= 10_000:  # 万 multiplies all that stands before it
            whole, part, digit = whole + max(part + digit, 1) * unit, 0, 0
        else:
            part, digit = part + max(digit, 1) * unit, 0
    return float(whole + part + digit)
