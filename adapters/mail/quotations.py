"""Removes the quotation of an earlier mail from the text of an answer."""

import re

_WROTE = re.compile(
    r"^\s*(?:on\b.{4,300}\bwrote|am\b.{4,300}\bschrieb.{0,120}|le\b.{4,300}\ba écrit|"
    r"el\b.{4,300}\bescribió|il\b.{4,300}\bha scritto|op\b.{4,300}\bschreef.{0,120}|"
    r"在.{4,300}(?:写道|寫道)|.{4,300}(?:さんは書きました|のメール|写道|寫道))\s*[:：]\s*$",
    re.IGNORECASE | re.DOTALL,
)
_DIVIDER = re.compile(
    r"^\s*(?:-{2,}\s*(?:original message|forwarded message|ursprüngliche nachricht|"
    r"原始邮件|原始郵件|元のメッセージ)\s*-{2,}|_{20,})\s*$",
    re.IGNORECASE,
)
_OUTLOOK = re.compile(r"^\s*(?:from|von|de|发件人|寄件者|差出人)\s*[:：].*@", re.IGNORECASE)
_SIGNATURE = re.compile(r"^-- $")
_REACH = 3
"""Maximum number of lines over which a mail program may spread "On Monday ... wrote:"."""
_LONGEST = 500
"""Maximum number of characters of these lines. The regular expression takes seconds for 20,000
blanks."""


def without_quotes(text: str) -> str:
    """Return the text without quotation and signature. If nothing is left, return the whole
    text."""
    lines = text.replace("\r\n", "\n").split("\n")
    end = next((at for at in range(len(lines)) if _begins_quote(lines, at)), len(lines))
    unquoted = lines[:end]
    while unquoted and (not unquoted[-1].strip() or unquoted[-1].lstrip().startswith(">")):
        unquoted.pop()
    signature = next(
        (at for at, line in enumerate(unquoted) if _SIGNATURE.match(line)), len(unquoted)
    )
    answer = "\n".join(unquoted[:signature]).strip()
    return answer or text.strip()


def _begins_quote(lines: list[str], at: int) -> bool:
    """Return True if only the quoted mail follows from line ``at`` on."""
    line = lines[at]
    if _DIVIDER.match(line):
        return True
    if _OUTLOOK.match(line):
        return (
            sum(bool(re.match(r"^\s*\S{2,20}\s*[:：]", each)) for each in lines[at : at + 5]) >= 3
        )
    for length in range(1, _REACH + 1):
        if not lines[at : at + length][-1].strip():
            break
        words = " ".join(" ".join(lines[at : at + length]).split())
        if len(words) <= _LONGEST and _WROTE.match(words):
            following = [each for each in lines[at + length :] if each.strip()]
            # If text of the sender follows between quoted lines, it is the answer, so nothing is
            # removed.
            return all(each.lstrip().startswith(">") for each in following) or not any(
                each.lstrip().startswith(">") for each in following
            )
    return False
