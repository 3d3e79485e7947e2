"""Writes quotes of a chat's messages, as `quote_messages` posts them."""

import re
from collections.abc import Sequence

from nekro_core.api.chat import Author, plain_text
from nekro_core.api.i18n import get_text, i18n_text
from nekro_core.api.schemas import FoundMessage

MAX_QUOTED = 20
"""Maximum number of messages in one quote. More would fill the chat."""
_MAX_TEXT = 300
"""Maximum number of characters of one quoted message."""
_NOTHING = i18n_text(
    en_US="I found no such message in this chat.",
    zh_CN="我在这个聊天里没有找到这样的消息。",
    ja_JP="このチャットにそのようなメッセージは見つかりませんでした。",
)
_WORD = re.compile(r"[a-z0-9]+|[^\W_a-z0-9]+")
_SHORT = 2
_ROOT = 4
"""Two words count as forms of one word if their first letters, up to this number, are the same."""
_THE_ASKER = frozenset(("me", "i", "my", "myself", "我", "我自己", "私", "僕", "俺", "わたし"))
_THE_BOT = frozenset(("you", "bot", "the bot", "你", "您", "机器人", "あなた", "君", "ボット"))
_ANYBODY = frozenset(
    (
        *("", "we", "us", "all", "anyone", "anybody", "everyone", "everybody", "somebody"),
        *("someone", "people", "the group", "我们", "大家", "有人", "谁"),
        *("みんな", "誰か", "誰", "私たち"),
    )
)


def author_of(who: str, asker_id: str) -> str:
    """Return the author that `find_messages` should search for if a person asks for messages of
    ``who``: the id of this person for words such as "me", "you" for the bot, an empty text for
    anybody, else the name itself."""
    name = who.strip().removesuffix("さん").removesuffix("ちゃん").removesuffix("君") or who.strip()
    if name.casefold() in _THE_ASKER:
        return asker_id
    if who.strip().casefold() in _THE_BOT:
        return "you"
    return "" if name.casefold() in _ANYBODY else name


def quoted(messages: Sequence[FoundMessage], asked: str) -> str:
    """Return the messages as lines with time, author and text, oldest first. If there are no
    messages, return a sentence that says so, in the language of ``asked``."""
    if not messages:
        return get_text(_NOTHING, _NOTHING["en-US"], _language(asked))
    in_order = sorted(messages, key=lambda each: each.number)
    return "\n".join(map(_line, in_order))


def about(words: str, messages: Sequence[FoundMessage]) -> list[FoundMessage]:
    """Return the found messages that share a word with ``words``, best first. If no message shares
    a word, return only the best one. If ``words`` has no word that can be compared, return all
    messages. A search also finds messages that may have nothing to do with
    ``words``. A model can ignore such messages, but people who read a quote would take them for the
    answer."""
    roots = _roots(words)
    if not roots:
        return list(messages)
    sharing = [each for each in messages if _has_any(each, roots)]
    return sharing or list(messages[:1])


def _roots(words: str) -> list[str]:
    """Return what messages are compared by: the first letters of each word, and, in scripts without
    spaces between words, each pair of neighbouring characters. Short words with Latin letters are
    left out, because most messages have such words."""
    found: list[str] = []
    for word in _WORD.findall(words.casefold()):
        if not word.isascii():
            found += (word[place : place + 2] for place in range(max(len(word) - 1, 1)))
        elif len(word) > _SHORT or word.isdecimal():
            found.append(word.rstrip("s")[:_ROOT])
    return found


def _has_any(message: FoundMessage, roots: Sequence[str]) -> bool:
    text = plain_text(message.record.segments).casefold()
    said = _WORD.findall(text)
    return any(
        any(word.startswith(root) for word in said) if root.isascii() else root in text
        for root in roots
    )


def _line(message: FoundMessage) -> str:
    record = message.record
    text = " ".join(plain_text(record.segments).split())
    if len(text) > _MAX_TEXT:
        text = f"{text[:_MAX_TEXT]}…"
    own = record.author is Author.BOT
    name = "🤖" if own else record.sender.name or record.sender.user_id or "⚙️"
    return f"{message.written:%Y-%m-%d %H:%M} {name}: {text}"


def _language(text: str) -> str:
    if any("\u3041" <= character <= "\u30ff" for character in text):
        return "ja-JP"
    return "zh-CN" if any("\u4e00" <= each <= "\u9fff" for each in text) else "en-US"
